"""Queries to plans: SELECT, set operations and pumps, over everything that a query may contain."""
