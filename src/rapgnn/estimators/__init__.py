"""scikit-learn's contract for graphs, and the search that chooses what the user left open.

In: a user's data and nothing else. Out: a fitted estimator: labels, probabilities, tables, a saved model.
"""
