"""What the page of a running pipeline is fed with: its graph, its counts at each commit, and their history."""
