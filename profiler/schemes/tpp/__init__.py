"""`tpp`: targeted path profiling (Joshi, Bond and Zilles 2004)."""
