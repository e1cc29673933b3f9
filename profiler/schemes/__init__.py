"""Profiling schemes: control-flow graph in, instrumentation plan and decoder out."""
