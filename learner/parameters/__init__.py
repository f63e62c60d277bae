"""Weights, optimizer, and how weights go out."""
