"""SPARC, ELF and Linux: runs programs, and knows nothing of profiling."""
