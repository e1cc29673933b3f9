"""Instrumented programs: the code that is added to them, and what they write."""
