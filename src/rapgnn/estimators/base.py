"""What the estimators share: arguments, training on a checked graph, save and load."""

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin

from rapgnn.device import pick_device
from rapgnn.errors import InputError, InputNotice, shown
from rapgnn.estimators.predictions import Predicting, as_classes, suits
from rapgnn.estimators.select import OnTrial, Settings
from rapgnn.estimators.start import start_config
from rapgnn.estimators.train import train
from rapgnn.graph.graph import Graph
from rapgnn.graph.scores import check_metric, with_goal
from rapgnn.graph.validate import SPLITS, check_whole
from rapgnn.models.average import Average, engine_of
from rapgnn.models.config import Config
from rapgnn.models.net_config import NetConfig
from rapgnn.training.checkpoint import load_checkpoint, save_checkpoint
from rapgnn.training.schema import Schema

MOST_SEED = (1 << 63) - 1
_SETTINGS = (
    *("backbone", "num_layers", "hidden_channels", "embedding", "head", "jumping", "pooling"),
    *("ridge", "dropout", "lr", "weight_decay", "epochs", "inference"),
)


class RAPEstimator(Predicting, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What the estimators share. A setting that is None is chosen on validation, or kept at its default.

    Args:
        backbone, num_layers, hidden_channels, embedding, head, jumping, pooling, ridge, dropout, lr, weight_decay,
            epochs, inference: as in ``Config``; None leaves the choice to the search.
        settings: any other field of ``Config``, by name.
        network: the settings of one random network by name, as in ``NetConfig``: random layers with signs (``width``),
            random features of the hops (``lift``), a kernel, a trained layer (``hidden``). No other one is tried; its
            penalty is chosen on validation.
        search: False trains once, with general settings for what is None (see ``docs/configuration.md``).
        time_budget: seconds after which the search begins nothing new; None: less than training one plain GNN would
            take, counted in operations, so that the result does not depend on the clock.
        scoring: the metric that the search chooses by and ``score`` returns: ``"accuracy"``, ``"balanced_accuracy"``,
            ``"rocauc"``, ``"average_precision"``, ``"f1_macro"``, ``"log_loss"``, ``"calibration_error"`` (the
            negatives of these two are returned); numbers: ``"rmse"``, ``"mae"`` (their negatives), ``"r2"``. None: the
            task's own.
        class_weight: ``"balanced"``: every class counts the same in sum in training; {label: weight}; None: every row
            counts the same, but with a ``scoring`` the search may try ``"balanced"``.
        memory_limit: how much memory the process may take, such as ``"8GiB"``, pages of files aside: the hops then come
            in blocks of columns from a graph on disk, and nothing is searched for. Nodes of one graph only.
        hops: where hops are: ``"memory"``; a folder that keeps those of the labelled rows, for the next fit too;
            ``"ray"``: computed on Ray, that of RAY_ADDRESS or this machine, else one that is started here;
            ``"ray://address"``; ``"torchrun"``: by the processes that torchrun started, all of which call ``fit_disk``.
            All but the first are for the nodes of one graph, which goes to disk, and nothing is searched for.
        seed: decides everything random.
        device: ``"cpu"``, ``"cuda"``, or ``"auto"``: cuda where there is one.
        verbose: log every candidate and the choice, through the logger ``rapgnn``.
    """

    def __init__(
        self,
        backbone: str | None = None,
        num_layers: int | None = None,
        hidden_channels: int | None = None,
        *,
        embedding: str | None = None,
        head: str | None = None,
        jumping: str | None = None,
        pooling: str | None = None,
        ridge: float | None = None,
        dropout: float | None = None,
        lr: float | None = None,
        weight_decay: float | None = None,
        epochs: int | None = None,
        inference: str | None = None,
        settings: dict[str, Any] | None = None,
        network: dict[str, Any] | None = None,
        search: bool = True,
        time_budget: float | None = None,
        scoring: str | None = None,
        class_weight: str | dict[Any, float] | None = None,
        memory_limit: str | int | None = None,
        hops: str | Path = "memory",
        seed: int = 0,
        device: str = "cpu",
        verbose: bool = False,
    ):
        self.backbone = backbone
        self.num_layers = num_layers
        self.hidden_channels = hidden_channels
        self.embedding = embedding
        self.head = head
        self.jumping = jumping
        self.pooling = pooling
        self.ridge = ridge
        self.dropout = dropout
        self.lr = lr
        self.weight_decay = weight_decay
        self.epochs = epochs
        self.inference = inference
        self.settings = settings
        self.network = network
        self.search = search
        self.time_budget = time_budget
        self.scoring = scoring
        self.class_weight = class_weight
        self.memory_limit = memory_limit
        self.hops = hops
        self.seed = seed
        self.device = device
        self.verbose = verbose

    def fit_graph(
        self, graph: Graph, on_trial: OnTrial | None = None, on_epoch: Callable[[], None] | None = None
    ) -> Self:
        """Train on a rapgnn ``Graph``.

        Args:
            on_trial: called with each candidate's settings and validation metric.
            on_epoch: called after every epoch, where there is no search.
        """
        self._check_arguments()
        for name, default in (("memory_limit", None), ("hops", "memory")):
            if getattr(self, name) != default:
                raise InputError(f"{name} is for the nodes of one graph: leave it out here.")
        start = start_config(graph)
        fixed, network = self._fixed(start), self._one_network()
        if network is not None:
            check_network(network, graph)
        if self.scoring is not None:
            check_metric(self.scoring, graph.task)
        with_goal(graph, None, self.class_weight)
        for note in graph.notes:
            warnings.warn(note, InputNotice, stacklevel=3)
        with show_log(bool(self.verbose)):
            found = train(
                graph,
                start,
                fixed,
                self.seed,
                pick_device(self.device),
                network=network,
                search=bool(self.search),
                time_budget=self.time_budget,
                scoring=self.scoring,
                class_weight=self.class_weight,
                on_trial=logging_trials(on_trial),
                on_epoch=on_epoch,
            )
            LOGGER.info("trained: %s", found.fitted.model)
        for note in found.graph.notes[len(graph.notes) :]:  # a validation split that was made up
            warnings.warn(note, InputNotice, stacklevel=3)
        fitted, graph = found.fitted, found.graph
        self._adopt(fitted.model.cpu(), Schema.of(graph))
        self.trials_, self.validation_score_ = list(found.trials), found.validation_score
        self.engine_, self.engine_reason_ = fitted.engine, fitted.reason
        self.split_ = {split: graph.rows(split).cpu().numpy() for split in SPLITS}
        self.notes_ = list(graph.notes)
        self.class_weight_ = None
        if found.class_weight is not None:
            self.class_weight_ = dict(zip(self.classes_.tolist(), found.class_weight, strict=True))
        return self

    def _fixed(self, start: Config) -> dict[str, Any]:
        """The settings that the user has fixed; what is wrong is refused before any work."""
        named = {name: getattr(self, name) for name in _SETTINGS if getattr(self, name) is not None}
        fixed = {"ridge": None} | named | (self.settings or {})  # a penalty that is not given is chosen
        start.update(**fixed)
        for name in named.keys() & (self.settings or {}):
            start.update(**{name: named[name]})  # settings win, but what is wrong is refused all the same
        return fixed

    def _one_network(self) -> NetConfig | None:
        """The random network that the user has described."""
        network = read_network(self.network)
        if network is not None:
            named = [name for name in _SETTINGS if getattr(self, name) is not None] + sorted(self.settings or {})
            if named:
                raise InputError(f"network describes the whole network: leave {named[0]} out, or say it there.")
        return network

    def _check_arguments(self) -> None:
        """What ``Config`` does not see."""
        check_whole("seed", self.seed, 0, MOST_SEED)
        if not isinstance(self.search, bool | np.bool_):
            raise InputError(f"search must be True or False, got {shown(self.search)}.")
        budget = self.time_budget
        number = isinstance(budget, int | float | np.number) and not isinstance(budget, bool)
        if budget is not None and not (number and budget >= 0):
            raise InputError(f"time_budget must be a number of seconds, or None, got {shown(budget)}.")
        settings = {} if self.settings is None else self.settings
        if not isinstance(settings, dict) or not all(isinstance(name, str) for name in settings):
            raise InputError(f"settings must be a dictionary of names and values, got {shown(settings)}.")

    def _adopt(self, model: Any, schema: Schema) -> None:
        infinite = next(
            (name for name, value in model.state_dict().items() if not bool(torch.isfinite(value).all())), None
        )
        if infinite is not None:
            raise InputError(
                f"training ended with infinite numbers ({infinite}): rescale the features, weights or targets."
            )
        self.model_, self.schema_ = model.requires_grad_(False), schema  # as a loaded one: the same numbers
        self.config_: Config = getattr(model.config, "network", model.config)
        self.n_features_in_ = schema.in_channels
        if schema.objective.metric != "rmse":
            self.classes_ = as_classes(schema.classes or tuple(range(schema.out_channels)))

    def save(self, folder: str | Path) -> None:
        """Write the model into a folder: safetensors and JSON, no pickle; an older one is replaced in one step.

        Where the model sees labels of neighbours, the folder holds the labels of the training rows.
        """
        save_checkpoint(Path(folder), self._fitted(), replace(self.schema_, scoring=self.scoring))

    def report(self, path: str | Path, data: Any, y: Any = None, **given: Any) -> None:
        """Write one HTML page about the model: the data, the choice, how good it is and why (``rapgnn[report]``).

        Args:
            path: of the page.
            data, y, given: as in ``fit``, with labels. Where the data name no splits, those that ``fit`` made count.
        """
        from rapgnn.report.model import write_model_report

        self._fitted()
        write_model_report(self, self._graph(data, y, given, labelled=True), Path(path))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """The model that ``save`` wrote; it predicts bitwise the same."""
        model, schema = load_checkpoint(Path(folder))
        if not suits(cls._task, schema.task):
            raise InputError(f"the model in {folder} is for {schema.task}, not for {cls._task}.")
        if isinstance(model, Average):
            loaded = cls(scoring=schema.scoring, seed=model.seed)
            loaded._adopt(model, schema)
            loaded.engine_, loaded.engine_reason_ = engine_of(model.members)
            return loaded
        config = model.config
        given = {name: getattr(config, name) for name in _SETTINGS}
        others = {k: v for k, v in config.to_dict().items() if k not in _SETTINGS and v != getattr(Config(), k)}
        kept = {"settings": others or None, "search": False, "scoring": schema.scoring, "seed": model.seed}
        loaded = cls(**given, **kept)
        loaded._adopt(model, schema)
        return loaded

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.no_validation = True
        return tags


# What an estimator says while it works, through Python's ``logging`` (the logger ``rapgnn``).


LOGGER = logging.getLogger("rapgnn")
_SHOWN = ("backbone", "num_layers", "jumping", "embedding", "head")


def logging_trials(then: OnTrial | None) -> OnTrial:
    """Log every candidate, then do what else was to be done."""
    count = 0

    def on_trial(settings: Settings, value: float) -> None:
        nonlocal count
        count += 1
        told = ", ".join(f"{name} {settings[name]}" for name in _SHOWN if name in settings)
        LOGGER.info("candidate %d: %.4f on validation (%s)", count, value, told)
        if then is not None:
            then(settings, value)

    return on_trial


@contextmanager
def show_log(wanted: bool) -> Iterator[None]:
    """With ``wanted`` the log reaches the screen, also where the program has not set logging up."""
    if not wanted:
        yield
        return
    level, handler = LOGGER.level, None
    if not LOGGER.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("rapgnn: %(message)s"))
        LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOGGER.setLevel(level)
        if handler is not None:
            LOGGER.removeHandler(handler)


# One random network that the user describes, instead of a search.


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
