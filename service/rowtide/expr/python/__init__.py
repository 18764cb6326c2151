"""Functions in Python: their modules, how they are called, and what their results must be."""
