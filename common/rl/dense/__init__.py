"""Dense networks in numpy: forward and backward, without torch, whose calls cost more than networks of this size."""
