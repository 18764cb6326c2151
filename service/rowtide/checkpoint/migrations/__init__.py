"""Versions of the checkpoint tables; alembic runs them, nothing imports them."""
