"""Engine tables, and joins and first rows of tables."""
