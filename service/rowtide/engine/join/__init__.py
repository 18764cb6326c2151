"""Joins of rows with tables and of tables with tables, by equal keys and always through an index."""
