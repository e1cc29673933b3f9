"""`bittrace`: paths named by branch outcomes (Ball and Larus 1996, section 2)."""
