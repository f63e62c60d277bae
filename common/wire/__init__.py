"""Everything that travels: messages, frames, sockets, codecs, bodies."""
