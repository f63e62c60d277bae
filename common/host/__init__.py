"""The host: addresses, files, modules, versions, and daemons as services."""
