"""Baselines of counts, and what a difference from one says."""
