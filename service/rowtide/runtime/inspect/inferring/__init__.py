"""Statements that declare a topic, proposed from its messages or schemas: one format a module."""
