"""The test kit: scenario runner, virtual time, crash points. Product code."""
