"""One graph type, and everything a user may hand in becomes one, checked once.

In: PyG data, networkx graphs, arrays, tables, labels and splits as a user has them. Out: a ``Graph``, and for a
backbone its propagation operator S.
"""
