"""Tables of databases as logged topics: polls append to the log, every reader reads the log."""
