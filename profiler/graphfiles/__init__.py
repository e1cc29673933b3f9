"""The schemes on graphs written by hand."""
