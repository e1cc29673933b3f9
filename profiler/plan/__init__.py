"""Instrumentation plans: which actions are on which edge, and how to read the counters."""
