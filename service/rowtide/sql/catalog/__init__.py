"""The catalog: the definitions of statements."""
