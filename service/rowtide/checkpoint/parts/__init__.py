"""State in parts: blobs in a store that tasks write and read, named by the snapshots of the database."""
