"""Row types, rows, opcodes and trays: what flows, in row form and in columnar form."""
