"""Functions of arrays (docs/sql/arrays.md)."""
