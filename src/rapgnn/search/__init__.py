"""The search behind the estimators: a portfolio of settings, their costs, their validation, the average of the best.

In: a graph with its splits, and what a user has fixed. Out: one trained model, and what was tried.
"""
