"""The procedural engine: labels, units, tables, aggregators and joins, row by row."""
