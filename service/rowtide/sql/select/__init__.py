"""SELECT: names, types, expressions and clauses."""
