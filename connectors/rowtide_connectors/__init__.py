"""Connectors of Rowtide: sources and sinks, one package per technology. None imports rowtide."""
