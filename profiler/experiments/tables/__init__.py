"""The papers' tables and graphs."""
