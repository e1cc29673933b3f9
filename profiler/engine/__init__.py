"""From block events to counts: the native hook, the automaton, path segments."""
