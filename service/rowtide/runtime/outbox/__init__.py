"""Rows to topics: messages of a commit wait in an outbox, and a sender sends them."""
