"""What commits together with the output: positions, bounds, epochs, decisions, errors, snapshots."""
