"""Instrumented programs: their code and memory, and what their counters say after a run."""
