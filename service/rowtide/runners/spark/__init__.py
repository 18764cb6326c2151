"""The Spark runner: plan -> DataFrames. The only package that imports pyspark."""
