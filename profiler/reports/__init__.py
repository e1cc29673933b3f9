"""Values as text: each module turns one kind of value into one format, and only returns it."""
