"""Scorers of scikit-learn, by name or as a callable, as metrics of probabilities and labels."""

import inspect
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from rapgnn.errors import InputError, shown


def scorer_of(scoring: Any) -> tuple[Any, str, bool]:
    """(``scorer(estimator, X, y)``, its name, whether it judges answers alone); more is better.

    Args:
        scoring: a name of scikit-learn's, one of its scorers or metrics, or a scorer of the user's own.
    """
    from sklearn.metrics import get_scorer, make_scorer

    if isinstance(scoring, str):
        scorer, name = get_scorer(scoring), scoring
    elif not callable(scoring):
        raise InputError(f"scoring must be the name of a metric, or a scorer(estimator, X, y), got {shown(scoring)}.")
    else:
        bare = next(iter(inspect.signature(scoring).parameters), "") == "y_true"  # a function of sklearn.metrics
        scorer = make_scorer(scoring) if bare else scoring
        name = getattr(getattr(scorer, "_score_func", scorer), "__name__", type(scorer).__name__)
    return scorer, name, getattr(scorer, "_response_method", "predict") == "predict"


def measure_by(
    scorer: Any, kind: str, p: Tensor, y: Tensor, classes: Sequence[Any] | None, positive: int | None
) -> float:
    """The score of answers; NaN where these rows have none, of one class alone for example.

    Args:
        kind: of label, the last word of a task.
        classes: what class numbers are called; None: by their numbers.
        positive: of two classes the one that is called 1, and the other 0; None: they keep their names.
    """
    values, truth = p.detach().cpu().double().numpy(), y.cpu().numpy()
    if truth.ndim == 2:
        known = ~np.isnan(truth).any(1)
        values, truth = values[known], truth[known]
    names = np.arange(values.shape[1]) if classes is None else np.array(classes)
    if kind == "multilabel" and truth.shape[1] == 1:
        values, truth, names = np.hstack([1 - values, values]), truth[:, 0].astype(int), np.arange(2)
    elif kind == "multilabel":
        truth, names = truth.astype(int), np.arange(max(3, truth.shape[1]))  # two would be taken for two classes
    elif kind == "classification" and positive is not None:
        values, truth, names = values[:, [1 - positive, positive]], (truth == positive).astype(int), np.arange(2)
    elif kind == "classification":
        truth = names[truth]
    else:
        values, truth = (part[:, 0] if part.shape[1] == 1 else part for part in (values, truth))
    if not len(truth) or np.isnan(values).any():
        return float("nan")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a class that is never answered has no precision
        return float(scorer(_answers(kind, values, names), np.arange(len(truth)), truth))


def _answers(kind: str, values: np.ndarray, names: np.ndarray) -> Any:
    """What a scorer takes for an estimator."""
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

    class Answers(RegressorMixin if kind == "regression" else ClassifierMixin, BaseEstimator):  # type: ignore[misc]
        classes_ = names

        def predict(self, X: Any) -> np.ndarray:
            if kind == "regression":
                return values
            tables = values.ndim == 2 and kind == "multilabel" and len(names) > 2
            return (values > 0.5).astype(int) if tables else names[values.argmax(1)]

        def predict_proba(self, X: Any) -> np.ndarray:
            return values

    return Answers()
