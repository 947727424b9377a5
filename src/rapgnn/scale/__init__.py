"""Graphs larger than memory: a graph in a folder, its hops in blocks of columns, and what a run will cost.

Only the hops S^k h need the whole graph; training needs the labelled rows alone. Channels never mix, so the hops of
a block of columns are a task of their own. In: a folder of tables, or a ``Graph``. Out: a ``DiskGraph``, rows of hops,
and plans.
"""
