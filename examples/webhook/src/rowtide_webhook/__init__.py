"""A connector and a format for Rowtide: webhooks, and logfmt."""
