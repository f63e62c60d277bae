"""Installing a3cd on hosts over ssh: a script that brings a host to the wanted state, and the files that go with it."""
