"""BSON messages to columns and rows to BSON, with the library of MongoDB's driver."""
