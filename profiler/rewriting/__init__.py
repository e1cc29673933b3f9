"""Programs with a scheme's code in its place: made, run, and their counters read."""
