"""`pp`: efficient path profiling (Ball and Larus 1996)."""
