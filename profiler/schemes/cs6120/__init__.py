"""`naive`, `calls`, `calls-optimal`: the edge profiling of the CS6120 blog."""
