"""Saved profiles in the formats of other tools: `simprof export`.

`formats` lists them. Each format has a module with one function from an `ExportSource` (the
measurement, and the program that it is of, where the format needs it) to the bytes of a file.
"""
