"""Tables: rows under a tree of indexes, announced change by change."""
