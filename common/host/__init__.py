"""The host: addresses, files, modules, versions, and what a daemon owes it."""
