"""Gradient codecs: how one flat float32 vector becomes the body of a message, and back.

`registry.make` gives the codec of a name such as "int8+zstd"; `negotiate` works without torch.
"""
