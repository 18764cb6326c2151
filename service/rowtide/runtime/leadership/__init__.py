"""Which of several replicas leads: the heartbeats of the leader, and who watches them."""
