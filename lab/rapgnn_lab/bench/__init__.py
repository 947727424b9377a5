"""Speed and memory, always against end-to-end training and what a user would pick instead, in the same run.

In: a graph and its sizes. Out: records with times, ratios and peak memory, one per method.
"""
