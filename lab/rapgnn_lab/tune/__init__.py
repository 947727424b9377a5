"""Hyperparameter search on validation alone, stored in SQLite, by one process or several.

In: a graph, a method and a space of settings. Out: the chosen settings and every trial.
"""
