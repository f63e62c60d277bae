"""Gradient codecs: how one flat float32 vector becomes the body of a message, and back."""
