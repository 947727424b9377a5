"""scikit-learn's contract for graphs, and the search that chooses what the user left open.

In: a user's data and nothing else. Out: a fitted estimator: labels, probabilities, tables, a saved model.
"""

from rapgnn.estimators.estimators import (
    RAPGraphClassifier,
    RAPGraphRegressor,
    RAPNodeClassifier,
    RAPNodeRegressor,
    estimator_for,
)

__all__ = ["RAPGraphClassifier", "RAPGraphRegressor", "RAPNodeClassifier", "RAPNodeRegressor", "estimator_for"]
