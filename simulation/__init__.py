"""A cluster in one process, on a virtual clock: real cores, environments and policies, and a simulated network."""
