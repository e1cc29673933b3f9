"""What `tools/bench.py` measures: the engine alone, whole commands, and how both grow.

engine      the emulated run alone, in one process, against the bare engine
processes   one process: wall-clock time, processor time, memory
programs    the real programs: built, with their inputs
commands    whole commands of simprof on them, beside qemu-user
growth      the same over text size and over run length; the cost of one longjmp
recovery    how fast graphs are recovered
rows        what all of them answer with, and the file that keeps it
limits      what is measured beside what it should not exceed
"""
