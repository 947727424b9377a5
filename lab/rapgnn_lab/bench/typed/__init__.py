"""``bench typed``: graphs with types of nodes, and the rivals that are trained on them.

In: names of graphs and rivals. Out: a record per graph and number of labels.
"""
