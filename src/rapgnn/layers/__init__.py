"""What a network is made of: random weights, embeddings of node features, heads.

In: features of a ``Graph`` and a seed. Out: modules and draws that ``models`` and ``propagation`` put together; nothing
here knows how it is trained. What docs teach of this room is importable from here.
"""

from rapgnn.layers.embedding import EMBEDDINGS
from rapgnn.layers.weights import DISTRIBUTIONS, RandomWeights

__all__ = ["DISTRIBUTIONS", "EMBEDDINGS", "RandomWeights"]
