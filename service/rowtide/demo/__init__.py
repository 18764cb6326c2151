"""The demo: a year of flights and weather through an embedded broker into SQLite, killed half way."""
