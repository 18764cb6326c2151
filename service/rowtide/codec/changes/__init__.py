"""Formats whose messages are changes of a table: envelopes of Debezium, and null values that delete."""
