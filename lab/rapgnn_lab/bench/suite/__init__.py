"""Graphs that no setting of this project was chosen on: generated and real, single graphs and sets of graphs.

In: a name of ``registry.GRAPHS``. Out: graphs with fixed splits, the searches of their rivals, and ours beside them.
"""
