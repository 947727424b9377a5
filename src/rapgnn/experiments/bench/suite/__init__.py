"""Graphs that no setting of this project was chosen on: generated and real, single graphs and sets of graphs.

In: a name of ``registry.SUITE``. Out: a ``Graph`` with fixed splits and the metric it is judged by.
"""
