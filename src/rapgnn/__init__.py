"""rapgnn: graph neural networks whose message-passing weights are random and never trained.

The public names, imported on first use so that ``import rapgnn`` is cheap.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if "OMP_WAIT_POLICY" not in os.environ:  # before torch loads: a thread that waits leaves its core to others soon
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

if TYPE_CHECKING:
    from rapgnn.compare import METHODS, fit
    from rapgnn.datasets import load_dataset
    from rapgnn.errors import InputError, InputNotice
    from rapgnn.estimators import RAPGraphClassifier, RAPGraphRegressor, RAPNodeClassifier, RAPNodeRegressor
    from rapgnn.estimators.estimators import RAPEdgeClassifier, RAPEdgeRegressor, load_model
    from rapgnn.estimators.links import RAPLinkPredictor
    from rapgnn.estimators.rows import NodeRows
    from rapgnn.graph.graph import Graph, from_pyg, make_graph, make_graphs
    from rapgnn.network.config import Config
    from rapgnn.network.propagation import Propagation
    from rapgnn.network.randomize import Randomized, randomize
    from rapgnn.network.rapgnn import RAPGNN
    from rapgnn.network.weights import RandomWeights
    from rapgnn.training.baselines import EndToEnd

_NAMES = {
    "compare": "METHODS fit",
    "datasets": "load_dataset",
    "errors": "InputError InputNotice",
    "estimators": "RAPGraphClassifier RAPGraphRegressor RAPNodeClassifier RAPNodeRegressor",
    "estimators.estimators": "RAPEdgeClassifier RAPEdgeRegressor load_model",
    "estimators.links": "RAPLinkPredictor",
    "estimators.rows": "NodeRows",
    "graph.graph": "Graph from_pyg make_graph make_graphs",
    "network.weights": "RandomWeights",
    "network.config": "Config",
    "network.randomize": "Randomized randomize",
    "network.rapgnn": "RAPGNN",
    "network.propagation": "Propagation",
    "training.baselines": "EndToEnd",
}
"""The public names by the module that they live in."""
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = [
    "METHODS",
    "RAPGNN",
    "Config",
    "EndToEnd",
    "Graph",
    "InputError",
    "InputNotice",
    "NodeRows",
    "Propagation",
    "RAPEdgeClassifier",
    "RAPEdgeRegressor",
    "RAPGraphClassifier",
    "RAPGraphRegressor",
    "RAPLinkPredictor",
    "RAPNodeClassifier",
    "RAPNodeRegressor",
    "RandomWeights",
    "Randomized",
    "fit",
    "from_pyg",
    "load_dataset",
    "load_model",
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
