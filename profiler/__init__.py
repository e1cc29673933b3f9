"""Graphs, schemes, costs and reports; what is measured, on top of `simulator`."""
