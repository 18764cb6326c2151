"""Rowtide: streaming SQL from Kafka into a relational database, exactly once, live and on Spark."""
