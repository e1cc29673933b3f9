"""Cells of experiments: one program, one input, one setting; their results."""
