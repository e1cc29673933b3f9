"""Cells that the train input's edge profile guides (`tpp:guide=train`, TPP 3)."""

from __future__ import annotations
