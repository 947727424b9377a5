"""A user's tables larger than memory -> a ``DiskGraph``: DuckDB joins and sorts, rows are streamed into files.

In: a folder of Parquet or CSV files, as ``rapgnn fit`` reads it. Out: the folder of a ``DiskGraph``.
"""
