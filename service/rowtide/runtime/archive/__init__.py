"""Archives: the messages of topics as files of Parquet (docs/howto/archive.md)."""
