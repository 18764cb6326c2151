"""How operators hold rows, keys and texts."""
