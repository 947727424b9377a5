"""What a search may choose: spaces by name."""

from typing import Any

from rapgnn.errors import check_choice
from rapgnn.experiments.tune.faithful import paper_embedding, suggest_faithful
from rapgnn.experiments.tune.general import suggest_any
from rapgnn.experiments.tune.paper import suggest_in_ranges
from rapgnn.experiments.tune.ranges import RANGES
from rapgnn.experiments.tuned import FAITHFUL
from rapgnn.graph.graph import Graph

ANY = "any"
SPACES = (ANY, FAITHFUL, "paper", "wide")


def default_space(graph: Graph) -> str:
    """The paper's ranges for the paper's datasets, the space for any graph elsewhere."""
    return "paper" if graph.name in RANGES else ANY


def default_embedding(space: str) -> str | None:
    """The embedding a space fixes unless told otherwise; None: it is part of the search, or the dataset's own."""
    return None if space in (ANY, FAITHFUL) else "pretrained"


def suggest(trial: Any, method: str, embedding: str | None, space: str, graph: Graph) -> dict[str, Any]:
    """One point of the space, as settings of ``Config``."""
    check_choice("search space", space, SPACES)
    if space == ANY:
        return suggest_any(trial, method, embedding, graph)
    if space == FAITHFUL:
        return suggest_faithful(trial, method, embedding or paper_embedding(graph), graph)
    assert embedding is not None
    return suggest_in_ranges(trial, method, embedding, space, graph)
