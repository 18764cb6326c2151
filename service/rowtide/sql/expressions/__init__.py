"""Expressions and names: syntax to typed trees."""
