"""Functions of CREATE FUNCTION: their grammar, their definitions, and their calls."""
