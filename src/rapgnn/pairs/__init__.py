"""Pairs of nodes: what describes them, links that are held out, pairs without a link, the heads, the model.

In: a graph's links, its features, pairs. Out: a score for every pair. A pair that a head learns from or is judged by is
never a link of the graph whose hops describe it.
"""
