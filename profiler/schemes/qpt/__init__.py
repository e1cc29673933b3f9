"""`qpt2` and `qpt`: edge and vertex profiling (Ball and Larus 1994)."""
