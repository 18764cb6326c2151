"""The benchmarks of ``rowtide bench``: inputs, workloads in our SQL, checks, and how they are timed."""
