"""The methods of the paper's tables: training strategies as points of one grid, and reservoir systems."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from rapgnn.errors import check_choice
from rapgnn.graph.graph import Graph
from rapgnn.layers.weights import BY_WIDTH
from rapgnn.models.config import Config
from rapgnn.training.baselines import fit_embedding, fit_end_to_end
from rapgnn.training.fit import Fitted, fit_rap
from rapgnn.training.reservoirs import SYSTEMS, fit_reservoir


@dataclass(frozen=True)
class Method:
    """A method: its title in tables, how it is trained, and the settings that make it what it is."""

    title: str
    fit: Callable[..., Fitted]
    settings: dict[str, Any] = field(default_factory=dict)
    trained: bool = False  # whether its layers are
    reservoir: bool = False  # whether it is a published system with settings of its own, which a Config does not hold

    def configure(self, config: Config) -> Config:
        settings = self.settings
        if settings.get("structure", "full") != "full" and config.distribution in BY_WIDTH:
            settings = settings | {"distribution": "uniform"}  # a diagonal has no width
        return config.update(**settings)


METHODS = {
    "rap": Method("RAP-GNN", fit_rap),  # diagonal, every forward, unless the settings say otherwise
    "end-to-end": Method("End-to-End", fit_end_to_end, trained=True),
    "pretrained-embedding": Method("Pretrained Embedding", fit_embedding),
    "fixed-diagonal": Method("Fixed Random Diagonal", fit_rap, {"structure": "diagonal", "schedule": "fixed"}),
    "fixed-full": Method("Fixed Random Weights", fit_rap, {"structure": "full", "schedule": "fixed"}),
    "random-full": Method("Random Weights", fit_rap, {"structure": "full", "schedule": "forward"}),
    "identity": Method("Identity Weights", fit_rap, {"structure": "identity", "schedule": "fixed"}),
    **{name: Method(system.title, partial(fit_reservoir, name), reservoir=True) for name, system in SYSTEMS.items()},
}
"""The methods of the paper's tables by name, the reservoir systems last; a new one is a row here."""

STRATEGIES = tuple(name for name, method in METHODS.items() if not method.reservoir)
"""The training strategies: RAP-GNN and what the paper compares it with in its own settings."""

RESERVOIRS = tuple(name for name, method in METHODS.items() if method.reservoir)
"""The reservoir systems."""


@torch.inference_mode(False)  # also where a user has switched it on
def fit(method: str, graph: Graph, config: Config, seed: int, on_epoch: Callable[[], None] | None = None) -> Fitted:
    """Train one method once."""
    check_choice("method", method, METHODS)
    chosen = METHODS[method]
    return chosen.fit(graph, chosen.configure(config), seed, on_epoch)
