"""Control-flow graphs from a program's machine code."""
