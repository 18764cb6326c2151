"""The kafka connector."""
