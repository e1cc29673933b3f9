"""Graphs, schemes, costs and reports; what is measured, on top of `simulator`.

Private by convention: every name in it may change in any version. `simprof` is what is public.
"""
