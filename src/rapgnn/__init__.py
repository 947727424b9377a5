"""rapgnn: graph neural networks whose message-passing weights are random and never trained.

The public names, imported on first use so that ``import rapgnn`` is cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rapgnn.collapse import collapse_by_layer, collapse_metrics
    from rapgnn.config import Config
    from rapgnn.datasets import load_dataset
    from rapgnn.endtoend import EndToEnd
    from rapgnn.errors import InputError
    from rapgnn.estimator_base import InputNotice
    from rapgnn.estimators import RAPGraphClassifier, RAPGraphRegressor, RAPNodeClassifier
    from rapgnn.graph import Graph, from_pyg, make_graph
    from rapgnn.graphs import from_pyg_list, make_graphs
    from rapgnn.methods import METHODS, fit
    from rapgnn.model import RAPGNN
    from rapgnn.propagation import Propagation
    from rapgnn.randomized import Randomized, randomize
    from rapgnn.weights import RandomWeights

_HOMES = {
    "Config": "config",
    "EndToEnd": "endtoend",
    "Graph": "graph",
    "InputError": "errors",
    "METHODS": "methods",
    "InputNotice": "estimator_base",
    "Propagation": "propagation",
    "RAPGraphClassifier": "estimators",
    "RAPGraphRegressor": "estimators",
    "RAPNodeClassifier": "estimators",
    "RAPGNN": "model",
    "RandomWeights": "weights",
    "Randomized": "randomized",
    "collapse_by_layer": "collapse",
    "collapse_metrics": "collapse",
    "fit": "methods",
    "from_pyg": "graph",
    "from_pyg_list": "graphs",
    "load_dataset": "datasets",
    "make_graph": "graph",
    "make_graphs": "graphs",
    "randomize": "randomized",
}

__all__ = [
    "METHODS",
    "RAPGNN",
    "Config",
    "EndToEnd",
    "Graph",
    "InputError",
    "InputNotice",
    "Propagation",
    "RAPGraphClassifier",
    "RAPGraphRegressor",
    "RAPNodeClassifier",
    "RandomWeights",
    "Randomized",
    "collapse_by_layer",
    "collapse_metrics",
    "fit",
    "from_pyg",
    "from_pyg_list",
    "load_dataset",
    "make_graph",
    "make_graphs",
    "randomize",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rapgnn' has no attribute {name!r}")
    return getattr(import_module(f"rapgnn.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
