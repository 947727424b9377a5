"""scikit-learn's contract for graphs: fit, predict, predict_proba, transform, score; and save, load."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from torch import Tensor

from rapgnn.auto import OnTrial, choose
from rapgnn.checkpoint import Schema, load_checkpoint, save_checkpoint
from rapgnn.checks import SPLITS, check_whole
from rapgnn.config import BOUNDS, Config
from rapgnn.defaults import base_config, default_config
from rapgnn.errors import InputError, check_choice, shown
from rapgnn.graph import Graph
from rapgnn.graph_lists import graph_set
from rapgnn.heads import RidgeHead
from rapgnn.inference import Prediction, predictor_on, represented
from rapgnn.inputs import hold_out, node_graph, take_apart
from rapgnn.threads import pick_device
from rapgnn.training import Fitted, fit_rap

METHODS = ("auto", "sample", "exact")
MOST_SEED = (1 << 63) - 1
_SETTINGS = (
    *("backbone", "num_layers", "hidden_channels", "embedding", "head", "jumping", "pooling"),
    *("ridge", "dropout", "lr", "weight_decay", "epochs", "inference"),
)


class UnfittedError(NotFittedError, InputError):
    """Used before ``fit``."""


class InputNotice(UserWarning):
    """Something was decided for the user on the way in: features or a split that were not given."""


class _RAPEstimator(TransformerMixin, BaseEstimator):
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
            on_trial: hears each candidate's settings and validation metric.
            on_epoch: called after every epoch, where there is no search.
        """
        self._check_arguments()
        named = {name: getattr(self, name) for name in _SETTINGS if getattr(self, name) is not None}
        fixed = {"ridge": None} | named | (self.settings or {})  # a penalty that is not given is chosen
        base = base_config(graph, "rap")
        base.update(**fixed)  # refuse what is wrong before any work
        for name in named.keys() & (self.settings or {}):
            base.update(**{name: named[name]})  # settings win, but nonsense is nonsense
        for note in graph.notes:
            warnings.warn(note, InputNotice, stacklevel=3)
        given = graph.to(pick_device(self.device))
        graph = hold_out(given, self.seed)
        if self.search:
            found = choose(graph, base, fixed, self.seed, self.time_budget, on_trial)
            fitted, config, self.trials_ = found.fitted, found.config, list(found.trials)
        else:
            config = default_config(graph, "rap").update(**fixed)
            fitted, self.trials_ = fit_rap(graph, config, self.seed, on_epoch), []
        worth = fitted.loop.best
        if len(graph.train) < len(given.train) and config.head == "ridge":
            fitted = _with_all_rows(fitted, given, config, self.seed)
        self._adopt(fitted.model.cpu(), Schema.of(graph))
        self.engine_, self.engine_reason_ = fitted.engine, fitted.reason
        self.split_ = {split: graph.rows(split).cpu().numpy() for split in SPLITS}
        self.notes_ = list(graph.notes)
        self.validation_score_ = float("nan") if worth is None else graph.rule.merit(worth[0])
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
        wild = next((name for name, value in model.state_dict().items() if not bool(torch.isfinite(value).all())), None)
        if wild is not None:
            raise InputError(
                f"training ended with infinite numbers ({wild}): rescale the features, weights or targets."
            )
        self.model_, self.schema_ = model, schema
        self.config_: Config = model.config
        self.n_features_in_ = schema.in_channels
        if schema.rule.metric != "rmse":
            self.classes_ = _as_classes(schema.classes or tuple(range(schema.out_channels)))

    def _fitted(self) -> Any:
        if not hasattr(self, "model_"):
            raise UnfittedError(f"this {type(self).__name__} is not fitted yet: call fit first.")
        return self.model_

    def _graph(
        self,
        data: Any,
        y: Any = None,
        given: dict[str, Any] | None = None,
        *,
        labelled: bool = False,
        training: bool = False,
    ) -> Graph:
        """The checked graph; ``given`` is what the user gave by name."""
        raise NotImplementedError

    def _prediction(self, graph: Graph, inference: str | None, n_samples: int | None, rows: Any = None) -> Prediction:
        predict = predictor_on(self.model_, graph, inference, n_samples)
        found = predict(torch.arange(graph.num_rows) if rows is None else rows)
        if not bool(torch.isfinite(found.scores).all()):
            raise InputError(
                "the predictions are not finite: the features or edge weights are too large, rescale them."
            )
        return found

    def _read(self, probabilities: Tensor) -> np.ndarray:
        """Labels, or numbers, as the user gave them."""
        metric = self.schema_.rule.metric
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
        return self._read(self._prediction(self._graph(data, given=given), None, None).probabilities)

    def _with_spread(
        self, data: Any, n_samples: int | None, spread: bool, method: str, given: dict[str, Any]
    ) -> Prediction:
        """Means and, where asked for, standard deviations over draws: of so many, or exact."""
        self._fitted()
        check_choice("method", method, METHODS)
        if n_samples is not None:
            n_samples = check_whole("n_samples", n_samples, *BOUNDS["num_samples"])
        if method == "exact" and n_samples is not None:
            raise InputError('method "exact" draws no samples: leave n_samples out.')
        graph = self._graph(data, given=given)
        if method == "exact":
            return self._prediction(graph, "exact", None)
        if n_samples is None and method == "auto":
            return self._prediction(graph, "spread" if spread else None, None)
        return self._prediction(graph, "mean", n_samples)

    def transform(self, data: Any, **given: Any) -> np.ndarray:
        """The propagated representation ``[rows, channels]``: its expectation, or else a draw."""
        self._fitted()
        return represented(self.model_, self._graph(data, given=given)).numpy()

    def fit_transform(self, data: Any, y: Any = None, **given: Any) -> np.ndarray:  # type: ignore[override]
        self.fit(data, y, **given)  # type: ignore[attr-defined]
        shape = {key: value for key, value in given.items() if key in ("edge_index", "adjacency", "edge_weight")}
        return self.transform(data, **shape)

    def _score(self, data: Any, y: Any, split: str | None, given: dict[str, Any]) -> float:
        self._fitted()
        if split is not None:
            check_choice("split", split, SPLITS)
        graph = self._graph(data, y, given, labelled=True)
        known = graph.y >= 0 if graph.y.dim() == 1 else ~graph.y.isnan().all(1)
        if split is None:
            rows = known.nonzero()[:, 0]
        else:
            own = graph.rows(split)
            rows = own if any(len(graph.rows(s)) for s in SPLITS) else self._own_split(split, graph)
        if not len(rows):
            raise InputError(
                "there are no labelled rows to score." if split is None else f"the {split} split is empty."
            )
        found = self._prediction(graph, None, None, rows)
        return self._merit(found.scores, graph.y[rows])

    def _own_split(self, split: str, graph: Graph) -> Tensor:
        rows = getattr(self, "split_", {}).get(split, np.zeros(0, dtype=np.int64))
        if len(rows) and rows.max() >= graph.num_rows:
            raise InputError("the splits that fit made belong to another graph: give masks.")
        return torch.from_numpy(rows)

    def _merit(self, scores: Tensor, y: Tensor) -> float:
        return self.schema_.rule.score(scores, y)

    def save(self, folder: str | Path) -> None:
        """Write the model into a folder: safetensors and JSON, no pickle; an older one is replaced in one step."""
        save_checkpoint(Path(folder), self._fitted(), self.schema_)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """The model that ``save`` wrote; it predicts bitwise the same."""
        model, schema = load_checkpoint(Path(folder))
        level, _, kind = schema.task.partition("-")
        wanted, _, kinds = cls._task.partition("-")
        if level != wanted or (kind == "regression") != (kinds == "regression"):
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


class _Classifier(ClassifierMixin, _RAPEstimator):  # type: ignore[misc]
    classes_: np.ndarray

    def score(  # type: ignore[override]
        self, data: Any, y: Any = None, *, split: str | None = None, **given: Any
    ) -> float:
        """Accuracy, or ROC-AUC where there are many labels, on the labelled rows or on those of a split.

        Args:
            split: ``"train"``, ``"val"`` or ``"test"``; None: every labelled row. Where the data name no splits, those
                that ``fit`` made count.
        """
        return self._score(data, y, split, given)

    def predict_proba(
        self,
        data: Any,
        *,
        n_samples: int | None = None,
        return_std: bool = False,
        method: str = "auto",
        **given: Any,
    ) -> Any:
        """Probabilities ``[rows, classes]``, and with ``return_std`` their standard deviation over draws.

        Args:
            n_samples: the mean over so many draws of the weights; None: the model's own way, one exact pass.
            method: ``"exact"``: mean and spread from the exact variance, without a draw; ``"sample"``: by draws.
            given: as in ``predict``.
        """
        found = self._with_spread(data, n_samples, return_std, method, given)
        if not return_std:
            return found.probabilities.numpy()
        spread = torch.zeros_like(found.probabilities) if found.spread is None else found.spread
        return found.probabilities.numpy(), spread.numpy()


class RAPNodeClassifier(_Classifier):
    """Classes, or many labels, for the nodes of one graph.

    ``RAPNodeClassifier().fit(data)`` chooses embedding, depth and head on validation. Fitted: ``classes_``, ``config_``
    (the settings chosen), ``trials_``, ``validation_score_``, ``split_``, ``notes_``, ``engine_``, ``model_``.
    """

    __doc__ = f"{__doc__}\n{_RAPEstimator.__doc__}"
    _task = "node-classification"

    def fit(self, data: Any, y: Any = None, **given: Any) -> Self:
        """Train.

        Args:
            data: a PyG ``Data``, a networkx graph, a rapgnn ``Graph``, or node features (array, sparse, DataFrame;
                None: there are none).
            y: labels, words or whole numbers, NaN, None or -1 where unknown; may be a part of ``data``.
            given: where ``data`` is features: ``edge_index`` or ``adjacency``, ``edge_weight``; and the splits
                ``train``, ``val``, ``test`` (masks or node numbers; ``train_mask`` and so on will do). None: a
                stratified split.
        """
        return self.fit_graph(self._graph(data, y, given, labelled=True, training=True))

    def _graph(
        self,
        data: Any,
        y: Any = None,
        given: dict[str, Any] | None = None,
        *,
        labelled: bool = False,
        training: bool = False,
    ) -> Graph:
        if isinstance(data, Graph):
            return _checked(data, self._task, None if training else self.schema_, y, given)
        parts = take_apart(data, y=y, **_named(given, ("edge_index", "adjacency", "edge_weight", *SPLITS)))
        if training:
            return node_graph(parts, seed=check_whole("seed", self.seed, 0, MOST_SEED))
        schema = self.schema_
        classes = schema.classes or tuple(range(schema.out_channels))
        graph = node_graph(parts, classes=classes, encoding=schema.encoding, labelled=labelled, trained=True)
        return _as_schema(graph, schema, labelled)


class _GraphEstimator(_RAPEstimator):
    def fit(self, graphs: Any, y: Any = None, **splits: Any) -> Self:
        """Train on a list of graphs.

        Args:
            graphs: a list or dataset of PyG ``Data``, of networkx graphs, of (features, edge_index) pairs, or a
                rapgnn ``Graph``.
            y: one label per graph; None takes the graphs' own.
            splits: ``train``, ``val``, ``test``: graph numbers or masks; None holds a fifth out for validation.
        """
        return self.fit_graph(self._graph(graphs, y, splits, labelled=True, training=True))

    def _graph(
        self,
        data: Any,
        y: Any = None,
        given: dict[str, Any] | None = None,
        *,
        labelled: bool = False,
        training: bool = False,
    ) -> Graph:
        if isinstance(data, Graph):
            return _checked(data, self._task, None if training else self.schema_, y, given)
        kind = self._task.partition("-")[2]
        splits = {key: value for key, value in _named(given, SPLITS).items() if value is not None} or None
        if training:
            return graph_set(data, y, task=kind, splits=splits)
        schema = self.schema_
        graph = graph_set(
            data,
            y,
            task=kind,
            classes=schema.classes,
            encoding=schema.encoding,
            labelled=labelled,
            trained=True,
            splits=splits,
        )
        return _as_schema(graph, schema, labelled)


class RAPGraphClassifier(_GraphEstimator, _Classifier):
    """Classes, or many labels, for whole graphs."""

    __doc__ = f"{__doc__}\n{_RAPEstimator.__doc__}"
    _task = "graph-classification"


class RAPGraphRegressor(RegressorMixin, _GraphEstimator):  # type: ignore[misc]
    """Numbers, one or several, for whole graphs."""

    __doc__ = f"{__doc__}\n{_RAPEstimator.__doc__}"
    _task = "graph-regression"

    def score(  # type: ignore[override]
        self, data: Any, y: Any = None, *, split: str | None = None, **given: Any
    ) -> float:
        """R² on the labelled graphs, or on those of a split (see the classifiers)."""
        return self._score(data, y, split, given)

    def predict(  # type: ignore[override]
        self, data: Any, *, n_samples: int | None = None, return_std: bool = False, method: str = "auto", **given: Any
    ) -> Any:
        """Numbers of all graphs, and with ``return_std`` their standard deviation over draws.

        Args:
            n_samples, method: as in the classifiers' ``predict_proba``.
        """
        found = self._with_spread(data, n_samples, return_std, method, given)
        if not return_std:
            return self._read(found.probabilities)
        spread = torch.zeros_like(found.probabilities) if found.spread is None else found.spread
        return self._read(found.probabilities), self._read(spread)

    def _merit(self, scores: Tensor, y: Tensor) -> float:
        from sklearn.metrics import r2_score

        known = ~y.isnan()
        values = [r2_score(y[k, j], scores[k, j]) for j, k in enumerate(known.T) if int(k.sum()) > 1]
        return float(np.mean(values)) if values else float("nan")


def _with_all_rows(fitted: Fitted, graph: Graph, config: Config, seed: int) -> Fitted:
    """A head in closed form needs no validation rows once its penalty is chosen: solve again with all training rows."""
    chosen = fitted.model.head
    assert isinstance(chosen, RidgeHead)
    again = fit_rap(graph, config.update(ridge=chosen.penalty), seed)
    again.model.head.sharpness.copy_(chosen.sharpness)  # type: ignore[union-attr]
    return again


def estimator_for(task: str) -> type[_RAPEstimator]:
    """The estimator for a task, a name from ``TASKS``."""
    level, kind = task.split("-")
    if level == "node":
        return RAPNodeClassifier
    return RAPGraphRegressor if kind == "regression" else RAPGraphClassifier


def _named(given: dict[str, Any] | None, known: tuple[str, ...]) -> dict[str, Any]:
    """``train_mask`` is ``train``; anything unknown is refused."""
    named: dict[str, Any] = {}
    for key, value in (given or {}).items():
        name = key.removesuffix("_mask")
        if name not in known:
            raise InputError(f"{key} is unknown: what goes with the data is {', '.join(known)}.")
        if name in named:
            raise InputError(f"give {name} or {name}_mask, not both.")
        named[name] = value
    return named


def _as_classes(classes: tuple[Any, ...]) -> np.ndarray:
    """As numpy holds them, unless that would change them: whole numbers too large for 64 bits."""
    found = np.array(classes)
    return found if found.tolist() == list(classes) else np.array(classes, dtype=object)


def _checked(graph: Graph, task: str, schema: Schema | None, y: Any, given: dict[str, Any] | None) -> Graph:
    if y is not None or given:
        raise InputError("a rapgnn Graph brings its own labels, edges and splits: give nothing beside it.")
    level, kind = task.split("-")
    theirs, own = graph.task.split("-")
    if level != theirs or (kind == "regression") != (own == "regression"):
        raise InputError(f"this is an estimator for {task}, but the data are for {graph.task}.")
    if schema is not None:
        schema.check(graph)
    elif graph.classes is None and own != "regression":
        return replace(graph, classes=tuple(range(graph.num_outputs)))
    return graph


def _as_schema(graph: Graph, schema: Schema, labelled: bool) -> Graph:
    """The graph as one for the model's task; refused where its features, or its labels, do not fit."""
    if labelled and graph.task != schema.task:
        raise InputError(f"the model is for {schema.task}, but the labels are for {graph.task}.")
    if labelled and graph.y.dim() == 2 and graph.y.shape[1] != schema.out_channels:
        raise InputError(f"the model gives {schema.out_channels} values per row, y has {graph.y.shape[1]}.")
    graph = replace(graph, task=schema.task, num_outputs=schema.out_channels)
    schema.check(graph)
    return graph
