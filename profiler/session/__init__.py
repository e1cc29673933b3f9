"""A whole run: from a program file to measurements."""
