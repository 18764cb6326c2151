"""Ingestion of topics into the flow."""
