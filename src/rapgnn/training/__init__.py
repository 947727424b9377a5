"""How a model is trained and used: the loop, phase 1, phase 2, baselines, predictions and their error bars, files.

In: a ``Graph``, a ``Config`` and a seed. Out: a trained model, its predictions, what it cost, a checkpoint on disk.
"""
