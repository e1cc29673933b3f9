"""`witness` and `bits`: whole traces (Ball and Larus 1994, sections 4 and 6.2)."""
