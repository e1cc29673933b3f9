"""Commands that build, run and compare many programs: suite, sweep, table, regress."""
