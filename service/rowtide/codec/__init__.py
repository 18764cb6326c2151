"""Bytes to columns and back; one format a file."""
