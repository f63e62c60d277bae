"""The weights, their optimizer, and how weights are sent out."""
