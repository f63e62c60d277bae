"""What every daemon shares: settings, messages and wire, codecs, networks, algorithms, environments, the host."""
