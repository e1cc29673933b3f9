"""Running a program: budgets, faults, interruptions."""
