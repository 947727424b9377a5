"""Training methods side by side: what each is configured with, and the records of all."""

from collections.abc import Callable, Sequence
from typing import Any

from rapgnn.errors import InputError, check_choice
from rapgnn.experiments.run import Record, run, warm_up
from rapgnn.experiments.tuned import BEST, default_config
from rapgnn.graph.backbones import BACKBONES
from rapgnn.graph.graph import Graph
from rapgnn.graph.splits import FOLDS
from rapgnn.layers.embedding import EMBEDDINGS
from rapgnn.models.config import Config
from rapgnn.models.reservoirs.encoder import choices
from rapgnn.training.methods import METHODS
from rapgnn.training.reservoirs import SYSTEMS

QUICK_EPOCHS = {"end-to-end": 100, "random-full": 100}  # `--quick` cuts only what goes through the graph every epoch


def plan(
    graph: Graph, methods: Sequence[str], embedding: str | None, overrides: dict[str, Any], quick: bool = False
) -> dict[str, Config]:
    """The configuration of every method: the dataset's defaults, then what the user sets."""
    configs = {}
    for method in methods:
        check_choice("method", method, METHODS)
        if METHODS[method].reservoir:  # settings of its own; those of the networks here do not apply
            configs[method] = Config()
            continue
        config = default_config(graph, method, embedding if _takes(method, embedding) else None)
        clash = [key for key, value in METHODS[method].settings.items() if overrides.get(key, value) != value]
        if clash:
            raise InputError(f"{method} fixes {clash[0]}, so it cannot be set: leave {method} out with --methods.")
        other = BACKBONES.get(overrides.get("backbone", ""))
        if other is not None and len(other.terms) > 1:
            config = config.update(factors=1)  # weights side by side cannot follow one another too
        config = config.update(**overrides)
        if "epochs" in overrides and "pretrain_epochs" not in overrides:  # so many are enough for phase 1 too
            config = config.update(pretrain_epochs=min(config.epochs, config.pretrain_epochs))
        if config.head == "ridge" and method == "random-full":
            raise InputError("random-full has no exact mean for the ridge head: leave it out with --methods.")
        if quick and method in QUICK_EPOCHS:
            config = config.update(epochs=min(config.epochs, QUICK_EPOCHS[method]))
        configs[method] = config
    if not configs:
        raise InputError(f"no method named: choose from {', '.join(METHODS)}.")
    return configs


def _takes(method: str, embedding: str | None) -> bool:
    """Whether the choice of embedding applies: end-to-end trains its own, and phase 1 alone must have one to train."""
    if method == "end-to-end" or (embedding == BEST and method != "rap"):
        return False
    pretrained = embedding in EMBEDDINGS and EMBEDDINGS[embedding].trained == "before"
    return method != "pretrained-embedding" or pretrained


def compare(
    graph: Graph,
    configs: dict[str, Config],
    seeds: Sequence[int],
    protocol: str = "both",
    on_start: Callable[[str], None] = lambda method: None,
    on_epoch: Callable[[], None] | None = None,
) -> list[Record]:
    """Train every method once per seed."""
    warm_up(list(configs), str(graph.y.device), graphs=graph.ptr is not None)
    records = []
    for method, config in configs.items():
        on_start(method)
        try:
            records.append(run(method, graph, config, seeds, protocol=protocol, on_epoch=on_epoch))
        except InputError as error:
            raise InputError(f"{method}: {error}") from error
    return records


def total_epochs(method: str, config: Config, seeds: int, folds: bool = False, protocol: str = "both") -> int:
    """How often ``on_epoch`` is called at most."""
    if folds:
        seeds *= FOLDS * (2 if protocol == "both" else 1)
    if METHODS[method].reservoir:
        return seeds * len(choices(SYSTEMS[method].settings))
    if method == "pretrained-embedding":
        return seeds * config.pretrain_epochs
    return seeds * (1 if config.head == "ridge" and method != "end-to-end" else config.epochs)
