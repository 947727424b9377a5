"""What the estimators share: arguments, training on a checked graph, predictions, scores, save and load."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError
from torch import Tensor

from rapgnn.device import pick_device
from rapgnn.errors import InputError, InputNotice, check_choice, shown
from rapgnn.estimators.compatible import as_classes, as_schema, check_graph, suits
from rapgnn.estimators.select import OnTrial
from rapgnn.estimators.start import start_config
from rapgnn.estimators.train import train
from rapgnn.graph.graph import Graph
from rapgnn.graph.validate import SPLITS, check_whole
from rapgnn.models.config import BOUNDS, Config
from rapgnn.training.checkpoint import load_checkpoint, save_checkpoint
from rapgnn.training.predict import Prediction, predictor_on, represented
from rapgnn.training.schema import Schema

ERROR_BARS = ("auto", "sample", "exact")  # ways to get them
MOST_SEED = (1 << 63) - 1
_SETTINGS = (
    *("backbone", "num_layers", "hidden_channels", "embedding", "head", "jumping", "pooling"),
    *("ridge", "dropout", "lr", "weight_decay", "epochs", "inference"),
)


class UnfittedError(NotFittedError, InputError):
    """Used before ``fit``."""


class RAPEstimator(TransformerMixin, BaseEstimator):
    """What the estimators share. A setting that is None is chosen on validation, or kept at its default.

    Args:
        backbone, num_layers, hidden_channels, embedding, head, jumping, pooling, ridge, dropout, lr, weight_decay,
            epochs, inference: as in ``Config``; None leaves the choice to the search.
        settings: any other field of ``Config``, by name.
        search: False takes ``Config``'s general settings for what is None, and trains once.
        time_budget: seconds after which the search begins nothing new; None: less than training one plain GNN would
            take, counted in operations, so that the result does not depend on the clock.
        seed: decides everything random.
        device: ``"cpu"``, ``"cuda"``, or ``"auto"``: cuda where there is one.
    """

    _task: ClassVar[str]

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
        search: bool = True,
        time_budget: float | None = None,
        seed: int = 0,
        device: str = "cpu",
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
        self.search = search
        self.time_budget = time_budget
        self.seed = seed
        self.device = device

    def fit_graph(
        self, graph: Graph, on_trial: OnTrial | None = None, on_epoch: Callable[[], None] | None = None
    ) -> Self:
        """Train on a rapgnn ``Graph``.

        Args:
            on_trial: called with each candidate's settings and validation metric.
            on_epoch: called after every epoch, where there is no search.
        """
        self._check_arguments()
        named = {name: getattr(self, name) for name in _SETTINGS if getattr(self, name) is not None}
        fixed = {"ridge": None} | named | (self.settings or {})  # a penalty that is not given is chosen
        start = start_config(graph)
        start.update(**fixed)  # refuse what is wrong before any work
        for name in named.keys() & (self.settings or {}):
            start.update(**{name: named[name]})  # settings win, but what is wrong is refused all the same
        for note in graph.notes:
            warnings.warn(note, InputNotice, stacklevel=3)
        found = train(
            graph,
            start,
            fixed,
            self.seed,
            pick_device(self.device),
            search=bool(self.search),
            time_budget=self.time_budget,
            on_trial=on_trial,
            on_epoch=on_epoch,
        )
        fitted, graph = found.fitted, found.graph
        self._adopt(fitted.model.cpu(), Schema.of(graph))
        self.trials_, self.validation_score_ = list(found.trials), found.validation_score
        self.engine_, self.engine_reason_ = fitted.engine, fitted.reason
        self.split_ = {split: graph.rows(split).cpu().numpy() for split in SPLITS}
        self.notes_ = list(graph.notes)
        return self

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
        self.config_: Config = model.config
        self.n_features_in_ = schema.in_channels
        if schema.objective.metric != "rmse":
            self.classes_ = as_classes(schema.classes or tuple(range(schema.out_channels)))

    def _fitted(self) -> Any:
        if not hasattr(self, "model_"):
            raise UnfittedError(f"this {type(self).__name__} is not fitted yet: call fit first.")
        return self.model_

    def _graph(self, data: Any, y: Any = None, given: dict[str, Any] | None = None, labelled: bool = False) -> Graph:
        """The checked graph for the trained model; ``given`` is what the user gave by name."""
        if isinstance(data, Graph):
            return check_graph(data, self._task, self.schema_, y, given)
        return as_schema(self._graph_for(self.schema_, data, y, given or {}, labelled), self.schema_, labelled)

    def _graph_for(self, schema: Schema, data: Any, y: Any, given: dict[str, Any], labelled: bool) -> Graph:
        """A user's data as a graph for a trained model."""
        raise NotImplementedError

    def _prediction(self, graph: Graph, rows: Tensor | None = None, **how: Any) -> Prediction:
        """For all rows or some; ``how`` as in ``predictor_on``."""
        found = predictor_on(self.model_, graph, **how)(torch.arange(graph.num_rows) if rows is None else rows)
        if not bool(torch.isfinite(found.scores).all()):
            raise InputError(
                "the predictions are not finite: the features or edge weights are too large, rescale them."
            )
        return found

    def _read(self, probabilities: Tensor) -> np.ndarray:
        """Labels, or numbers, as the user gave them."""
        metric = self.schema_.objective.metric
        values = probabilities.numpy()
        if metric == "accuracy":
            return self.classes_[values.argmax(axis=1)]
        if metric == "rocauc":
            return (values > 0.5).astype(np.int64)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, data: Any, **given: Any) -> np.ndarray:
        """Labels (or numbers) of all rows; the same in every call.

        Args:
            data: as in ``fit``, the graph of the training or another.
            given: ``edge_index``, ``adjacency``, ``edge_weight``, where ``data`` is features.
        """
        self._fitted()
        return self._read(self._prediction(self._graph(data, given=given)).probabilities)

    def _with_spread(
        self, data: Any, n_samples: int | None, spread: bool, method: str, given: dict[str, Any]
    ) -> Prediction:
        """Means and, where asked for, standard deviations over draws: of so many, or exact."""
        self._fitted()
        check_choice("method", method, ERROR_BARS)
        if n_samples is not None:
            n_samples = check_whole("n_samples", n_samples, *BOUNDS["num_samples"])
        if spread and n_samples == 1:
            raise InputError(
                "one draw has no spread: give n_samples of 2 or more, or leave it out for exact error bars."
            )
        if method == "exact" and n_samples is not None:
            raise InputError('method "exact" draws no samples: leave n_samples out.')
        graph = self._graph(data, given=given)
        if method == "exact":
            return self._prediction(graph, inference="expected", error_bars=True)
        if n_samples is None and method == "auto":
            return self._prediction(graph, inference="auto" if spread else None, error_bars=spread)
        return self._prediction(graph, inference="mean", num_samples=n_samples)

    def transform(self, data: Any, **given: Any) -> np.ndarray:
        """The propagated representation ``[rows, channels]``: its expectation, or else a draw."""
        self._fitted()
        return represented(self.model_, self._graph(data, given=given)).numpy()

    def fit_transform(self, data: Any, y: Any = None, **given: Any) -> np.ndarray:  # type: ignore[override]
        """``fit``, then ``transform`` of the same data."""
        self.fit(data, y, **given)  # type: ignore[attr-defined]
        shape = {key: value for key, value in given.items() if key in ("edge_index", "adjacency", "edge_weight")}
        return self.transform(data, **shape)

    def _score(self, data: Any, y: Any, split: str | None, given: dict[str, Any]) -> float:
        self._fitted()
        if split is not None:
            check_choice("split", split, SPLITS)
        graph = self._graph(data, y, given, labelled=True)
        if split is None:
            rows = graph.labelled
        else:
            own = graph.rows(split)
            rows = own if any(len(graph.rows(s)) for s in SPLITS) else self._own_split(split, graph)
        if not len(rows):
            raise InputError(
                "there are no labelled rows to score."
                if split is None
                else f"the {split} split is empty (validation_score_ is the score of what fit held out)."
            )
        found = self._prediction(graph, rows)
        return self._metric(found.scores, graph.y[rows])

    def _own_split(self, split: str, graph: Graph) -> Tensor:
        rows = getattr(self, "split_", {}).get(split, np.zeros(0, dtype=np.int64))
        if len(rows) and rows.max() >= graph.num_rows:
            raise InputError("the splits that fit made belong to another graph: give masks.")
        return torch.from_numpy(rows)

    def _metric(self, scores: Tensor, y: Tensor) -> float:
        return self.schema_.objective.score(scores, y)

    def save(self, folder: str | Path) -> None:
        """Write the model into a folder: safetensors and JSON, no pickle; an older one is replaced in one step."""
        save_checkpoint(Path(folder), self._fitted(), self.schema_)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """The model that ``save`` wrote; it predicts bitwise the same."""
        model, schema = load_checkpoint(Path(folder))
        if not suits(cls._task, schema.task):
            raise InputError(f"the model in {folder} is for {schema.task}, not for {cls._task}.")
        config = model.config
        given = {name: getattr(config, name) for name in _SETTINGS}
        others = {k: v for k, v in config.to_dict().items() if k not in _SETTINGS and v != getattr(Config(), k)}
        loaded = cls(**given, settings=others or None, search=False, seed=model.seed)
        loaded._adopt(model, schema)
        return loaded

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.no_validation = True
        return tags
