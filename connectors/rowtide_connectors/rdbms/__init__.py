"""The rdbms connector."""
