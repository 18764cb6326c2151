"""Aggregators: results kept up for each group of a table's index."""
