"""The run-time of programs on other machines: start-up, writing counters, reading them."""
