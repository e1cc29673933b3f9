"""SPARC, ELF and Linux: runs programs, and knows nothing of profiling.

Private by convention: every name in it may change in any version. `simprof` is what is public.
"""
