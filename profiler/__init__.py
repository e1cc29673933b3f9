"""Graphs, schemes, costs and reports; what is measured, on top of `simulator`.

Private by convention: every name in it may change in any version. `simprof` is what is public.
"""

# Version of simprof: `importlib.metadata` takes 11 ms of every run to find it. A test compares.
OWN_VERSION = "0.1.0"
