"""Connectors of Rowtide: sources and sinks, one package a technology. None imports rowtide."""
