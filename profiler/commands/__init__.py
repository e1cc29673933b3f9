"""One module per subcommand. Each only parses, calls and writes; heavy imports happen late."""
