"""What a running pipeline is: its context, operators, output, status, and who observes it."""
