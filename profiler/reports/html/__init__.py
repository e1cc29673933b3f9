"""Pages of HTML that need nothing else: reports of profiles, tables, suites."""
