"""What enters a running pipeline between two turns: partitions, resubmitted rows, statements that are sent."""
