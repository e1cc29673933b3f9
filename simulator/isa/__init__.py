"""The SPARC instruction set: decoding, assembling, effects."""
