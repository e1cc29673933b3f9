"""The run-time routines that snippets call."""
