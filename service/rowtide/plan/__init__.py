"""The relational plan: frozen nodes that define each step, and rewrites of them."""
