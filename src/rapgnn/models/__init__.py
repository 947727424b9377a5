"""Whole networks: their settings, RAPGNN, EndToEnd, any PyG model with random weights, and how features collapse.

In: a ``Config`` and a graph. Out: a ``torch.nn.Module`` that gives scores; ``training`` trains it.
"""
