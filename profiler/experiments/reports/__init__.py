"""Reports on suites, sweeps, tables and baselines: text, files and pages."""
