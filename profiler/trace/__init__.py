"""Traces: written while a program runs, and executions regenerated from them."""
