"""Windows of OVER, row by row: the reference of the compiled form."""
