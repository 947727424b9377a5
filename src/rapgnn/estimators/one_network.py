"""One random network that the user describes, instead of a search."""

from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from rapgnn.errors import InputError, shown
from rapgnn.graph.graph import Graph
from rapgnn.models.net_config import NetConfig

FIELDS = tuple(field.name for field in fields(NetConfig) if field.name != "first")  # one network has none before it
NUMBERS = ("teleport", "reach", "dropout")  # that may be given as whole ones
ON_NODES = ("identity", "known")  # speak of the nodes of one graph


def read_network(given: Any) -> NetConfig | None:
    """The settings that a user gave by name; None where none were given."""
    if given is None:
        return None
    if isinstance(given, NetConfig):
        given = {name: value for name, value in given.to_dict().items() if name != "first" or value is not None}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise InputError(f"network must be a dictionary of names and values, got {shown(given)}.")
    unknown = [name for name in given if name not in FIELDS]
    if unknown:
        near = get_close_matches(unknown[0], FIELDS, n=3, cutoff=0.5) or FIELDS
        raise InputError(f"a random network has no setting {shown(unknown[0])}: like it are {', '.join(near)}.")
    settings: dict[str, Any] = dict(given)
    for name in NUMBERS:
        if type(settings.get(name)) is int:
            settings[name] = float(settings[name])
    return NetConfig(**settings)


def check_network(config: NetConfig, graph: Graph) -> None:
    """Refuse what a graph, or a set of graphs, does not admit."""
    if config.sketch > graph.num_features:
        raise InputError(f"sketch must be at most the {graph.num_features} columns there are, got {config.sketch}.")
    if config.lift_hops and not config.lift:
        raise InputError("lift_hops are hops of random features: set lift too.")
    if graph.ptr is None:
        if config.edges == "both" and (config.width or config.jumping != "cat"):
            raise InputError("edges both ways stand side by side: take them with jumping cat, and without width.")
        if config.colours:
            raise InputError("colours are counted in sets of graphs: leave them out for the nodes of one graph.")
        return
    for name in ON_NODES:
        if getattr(config, name):
            raise InputError(f"{name} is for the nodes of one graph: leave it out for a set of graphs.")
    if config.edges != "given":
        raise InputError("edges of sets of graphs are taken as given: add the reverse ones to the data.")
    if config.jumping == "ppr":
        raise InputError("personalised PageRank is for the nodes of one graph: take last or cat for a set of graphs.")
