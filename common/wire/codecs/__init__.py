"""Gradient codecs: how one flat float32 vector becomes the body of a message, and back.

`names` and `negotiate` know no torch; `registry.make` gives the codec of a name such as "int8+zstd".
"""
