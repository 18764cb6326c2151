"""Streaming SQL: text -> plan. Pure: no I/O."""
