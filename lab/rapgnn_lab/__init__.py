"""What a researcher runs: methods side by side, searches, benchmarks, the tables of the pages.

In: datasets by name and the settings that searches chose for them. Out: records, one flat dictionary each, and the
tables and plots made of them.
"""
