"""One transaction a commit: rows, errors, positions, state."""
