"""The objects that statements define."""
