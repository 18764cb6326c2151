"""The relational plan: frozen nodes that say what each step does, and rewrites of them."""
