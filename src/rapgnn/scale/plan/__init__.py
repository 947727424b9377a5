"""What a run on a graph larger than memory will cost, before it is started.

In: the sizes of a graph, the memory and number of machines, and rates that were measured on one. Out: for every layout
the bytes read, moved and kept, the memory of a worker, the seconds, and which layout to take.
"""
