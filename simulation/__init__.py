"""A cluster in one process, on a virtual clock: the real cores, environments and networks, and a network of numbers."""
