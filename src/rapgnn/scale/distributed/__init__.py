"""A graph that fits no single machine: every worker of ``torch.distributed`` holds some of its rows.

In: a ``DiskGraph``, and processes that torchrun started. Out: the hops of the wanted rows in the hop store, and a head
trained by all workers. Between two hops only the rows travel that another worker needs.
"""
