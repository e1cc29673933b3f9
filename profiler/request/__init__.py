"""What is asked of simprof and what can go wrong: values only."""
