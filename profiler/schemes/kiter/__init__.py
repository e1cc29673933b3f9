"""`kiter`: k-iteration paths (Roy and Srikant 2009)."""
