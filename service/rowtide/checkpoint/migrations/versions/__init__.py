"""One migration per file, in the order of their names."""
