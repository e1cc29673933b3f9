"""Requests to simprof, and errors: values only."""
