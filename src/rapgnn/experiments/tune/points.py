"""What every space is made of: the settings of one trial, filled in one after another."""

from collections.abc import Sequence
from typing import Any

from rapgnn.estimators.start import MANY_GRAPHS
from rapgnn.graph.graph import Graph
from rapgnn.training.methods import METHODS

GRAPH_EPOCHS = 200


class Point:
    """The settings of one trial, filled in one after another."""

    def __init__(self, trial: Any):
        self.trial, self.settings = trial, {}

    def choose(self, name: str, options: Sequence[Any]) -> Any:
        """One of the options; where there is but one, the trial is not asked."""
        only = len(options) == 1
        self.settings[name] = options[0] if only else self.trial.suggest_categorical(name, list(options))
        return self.settings[name]

    def size(self, name: str, low: float, high: float) -> None:
        """A number whose order of magnitude counts."""
        self.settings[name] = self.trial.suggest_float(name, low, high, log=True)

    def share(self, name: str, high: float) -> None:
        self.settings[name] = self.trial.suggest_float(name, 0.0, high)


def graph_epochs(graph: Graph, method: str) -> int:
    """Many batches make an epoch of many steps, and one through trained layers is expensive."""
    return GRAPH_EPOCHS // ((4 if len(graph.train) > MANY_GRAPHS else 1) * (2 if METHODS[method].trained else 1))
