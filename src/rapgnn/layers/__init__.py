"""What a network is made of: random weights, embeddings of node features, heads.

In: features of a ``Graph`` and a seed. Out: modules and draws that ``models`` and ``propagation`` put together; nothing
here knows how it is trained.
"""
