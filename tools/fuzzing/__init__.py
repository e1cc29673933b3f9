"""What `tools/fuzz.py` does: damaged and hostile files for everything that reads one.

mutation      files changed at random: bytes, numbers, JSON, text
elf_mutation  the same for ELF files: fields of headers, tables of many entries
framed        the same for simprof's own formats, whose checksums are made right again
trial         one input: read, and judged
worker        many inputs, in a process of its own that may hang or die
campaign      workers watched; what they found, confirmed and kept
corpus        the committed inputs
programs, graphs, results, runs
              the targets
targets       the list of them
"""
