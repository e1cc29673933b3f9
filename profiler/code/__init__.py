"""SPARC code of actions: where it goes, which registers it takes, what it costs."""
