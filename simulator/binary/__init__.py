"""ELF files and their debugging information."""
