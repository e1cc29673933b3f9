"""Suites of programs, the papers' tables, regression baselines, sweeps."""
