"""Tables of databases as sources: each poll reads all rows, or those that a column says have changed."""
