"""Commands on instrumented programs: make them, verify them, read what they have counted."""
