"""Which error rows can be read again, where they will count, and the order to read them."""
