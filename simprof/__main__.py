"""`python -m simprof`: the command, for a Python whose scripts are not on the PATH."""

from simprof.profiler.cli import main

main()
