"""Measurements of a run: values, files, merging, accuracy."""
