"""What a query reads: its columns, bounds and guards."""
