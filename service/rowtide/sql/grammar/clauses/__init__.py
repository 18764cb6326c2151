"""The grammars of single clauses, which read their parts from the grammar of expressions."""
