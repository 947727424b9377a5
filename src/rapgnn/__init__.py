"""rapgnn: graph neural networks whose message-passing weights are random and never trained.

The public names, imported on first use so that ``import rapgnn`` is cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rapgnn import former

__version__ = "0.1.0"

if TYPE_CHECKING:
    from rapgnn.datasets import load_dataset
    from rapgnn.errors import InputError, InputNotice
    from rapgnn.estimators.estimators import RAPGraphClassifier, RAPGraphRegressor, RAPNodeClassifier, RAPNodeRegressor
    from rapgnn.estimators.rows import NodeRows
    from rapgnn.graph.batch import make_graphs
    from rapgnn.graph.graph import Graph, make_graph
    from rapgnn.graph.lists import from_pyg_list
    from rapgnn.graph.nodes import from_pyg
    from rapgnn.layers.weights import RandomWeights
    from rapgnn.models.collapse import collapse_by_layer, collapse_metrics
    from rapgnn.models.config import Config
    from rapgnn.models.endtoend import EndToEnd
    from rapgnn.models.randomize import Randomized, randomize
    from rapgnn.models.rapgnn import RAPGNN
    from rapgnn.propagation.spec import Propagation
    from rapgnn.training.methods import METHODS, fit

_HOMES = {
    "Config": "models.config",
    "EndToEnd": "models.endtoend",
    "Graph": "graph.graph",
    "InputError": "errors",
    "METHODS": "training.methods",
    "InputNotice": "errors",
    "NodeRows": "estimators.rows",
    "Propagation": "propagation.spec",
    "RAPGraphClassifier": "estimators.estimators",
    "RAPGraphRegressor": "estimators.estimators",
    "RAPNodeClassifier": "estimators.estimators",
    "RAPNodeRegressor": "estimators.estimators",
    "RAPGNN": "models.rapgnn",
    "RandomWeights": "layers.weights",
    "Randomized": "models.randomize",
    "collapse_by_layer": "models.collapse",
    "collapse_metrics": "models.collapse",
    "fit": "training.methods",
    "from_pyg": "graph.nodes",
    "from_pyg_list": "graph.lists",
    "load_dataset": "datasets",
    "make_graph": "graph.graph",
    "make_graphs": "graph.batch",
    "randomize": "models.randomize",
}

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
    "RAPGraphClassifier",
    "RAPGraphRegressor",
    "RAPNodeClassifier",
    "RAPNodeRegressor",
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


former.install()
