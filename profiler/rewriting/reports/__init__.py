"""What `instrument` did, and what `verify` found, as text and JSON."""
