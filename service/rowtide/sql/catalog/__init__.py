"""What statements define."""
