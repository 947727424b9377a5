"""What the estimators share: arguments, training on a checked graph, save and load."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metadata_routing import UNUSED

from rapgnn.device import own_settings, pick_device
from rapgnn.errors import InputError, notice, shown
from rapgnn.estimators.card import describe, describe_graph, model_card
from rapgnn.estimators.predictions import Predicting, as_classes, suits
from rapgnn.estimators.threshold import check_threshold, class_number
from rapgnn.graph.graph import Graph
from rapgnn.graph.labels import as_plain
from rapgnn.graph.rows import goal_metric, of_seen_classes, with_all_classes, with_goal, with_sample_weight
from rapgnn.graph.validate import SPLITS, check_whole
from rapgnn.network.config import SETTINGS, Config, refuse_unknown
from rapgnn.network.heads import RidgeHead
from rapgnn.network.known_labels import FitRows
from rapgnn.network.network import Average, engine_of
from rapgnn.search.portfolio import idle_note
from rapgnn.search.search import OnTrial, train
from rapgnn.search.start import check_settings, first_point, start_config
from rapgnn.training.checkpoint import load_checkpoint, save_checkpoint
from rapgnn.training.schema import Schema

MOST_SEED = (1 << 63) - 1


class RAPEstimator(Predicting, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What the estimators share. A setting that is None is chosen on validation, or stays at its default.

    Args:
        backbone, num_layers, hidden_channels: settings of ``Config``; what is set constrains all that is tried.
        settings: any other setting of ``Config`` by name; each may be given as an argument too (``epochs=100``).
        search: False trains the first point alone, with general settings for what is None.
        time_budget: seconds after which the search begins nothing new; None: less than training one plain GNN would
            take, counted in operations, so that the result does not depend on the clock.
        scoring: the metric that the search chooses by and ``score`` returns: ``"accuracy"``, ``"balanced_accuracy"``,
            ``"rocauc"``, ``"average_precision"``, ``"f1_macro"``, ``"log_loss"``, ``"calibration_error"`` (the
            negatives of these two are returned); numbers: ``"rmse"``, ``"mae"`` (their negatives), ``"r2"``; any name
            of scikit-learn's, such as ``"matthews_corrcoef"``, or ``scorer(estimator, X, y)``. None: the task's own.
        pos_label: of two classes the one that is looked for; None: the rarer. Metrics of one class are its own.
        threshold: from which probability it is the answer (with many labels, each): a number, or the best on validation
            for a metric, ``"f1"``, or for costs, ``{"false_positive": 1, "false_negative": 5}``. None: the likelier
            class is.
        class_weight: ``"balanced"``: every class counts the same in sum in training; {label: weight}; None: every row
            counts the same, but with a ``scoring`` the search may try ``"balanced"``.
        memory_limit: how much memory the process may take, such as ``"8GiB"``, pages of files aside: the hops then come
            in blocks of columns from a graph on disk, and the search tries what one store of hops serves. Nodes of one
            graph only.
        hops: where hops are: ``"memory"``; a folder that keeps those of the labelled rows, for the next fit too;
            ``"ray"``: computed on Ray, the one that RAY_ADDRESS or this machine names, else one that is started here,
            or ``"ray://address"``; ``"torchrun"``: by the processes that torchrun started, which all call ``fit_disk``.
            All but the first are for the nodes of one graph, which goes to disk, and are searched as there.
        seed: decides everything random; ``random_state`` is the same, in scikit-learn's word.
        device: ``"cpu"``, ``"cuda"``, or ``"auto"``: cuda where there is one.
        verbose: log every candidate and the choice, through the logger ``rapgnn``.
    """

    _columns: Any = None  # where rows are edges: settings -> what describes them
    # What scikit-learn calls X is no metadata; ``sample_weight`` is.
    __metadata_request__predict: ClassVar[dict[str, Any]] = {"data": UNUSED}
    __metadata_request__predict_proba = __metadata_request__score = __metadata_request__predict
    __metadata_request__transform = __metadata_request__predict

    def __init__(
        self,
        backbone: str | None = None,
        num_layers: int | None = None,
        hidden_channels: int | None = None,
        *,
        settings: dict[str, Any] | None = None,
        search: bool = True,
        time_budget: float | None = None,
        scoring: Any = None,
        pos_label: Any = None,
        threshold: Any = None,
        class_weight: str | dict[Any, float] | None = None,
        memory_limit: str | int | None = None,
        hops: str | Path = "memory",
        seed: int = 0,
        random_state: int | None = None,
        device: str = "cpu",
        verbose: bool = False,
        **more: Any,
    ):
        self.backbone = backbone
        self.num_layers = num_layers
        self.hidden_channels = hidden_channels
        self.settings = settings
        self.search = search
        self.time_budget = time_budget
        self.scoring = scoring
        self.pos_label = pos_label
        self.threshold = threshold
        self.class_weight = class_weight
        self.memory_limit = memory_limit
        self.hops = hops
        self.seed = seed
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        self._take(more)

    def _take(self, more: dict[str, Any]) -> None:
        """Settings of ``Config`` that were given as arguments."""
        refuse_unknown(more, also=tuple(self._get_param_names()))
        for name, value in more.items():
            setattr(self, name, value)

    @property
    def _more(self) -> tuple[str, ...]:
        """The settings of ``Config`` that were given as arguments, beside those that ``__init__`` names."""
        named = self._get_param_names()
        return tuple(name for name in SETTINGS if name in vars(self) and name not in named)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return super().get_params(deep) | {name: getattr(self, name) for name in self._more}

    def set_params(self, **params: Any) -> Self:
        new = {name: value for name, value in params.items() if name in SETTINGS and name not in self.get_params()}
        self._take(new)
        return super().set_params(**{name: value for name, value in params.items() if name not in new})

    @own_settings()
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
        whole, (graph, classes) = graph, of_seen_classes(graph)
        start = start_config(graph)
        fixed = self.fixed_settings()
        check_settings(graph, start, fixed)
        check_threshold(self.threshold, whole, whole.num_outputs)
        positive = self._positive_of(whole)
        scoring = goal_metric(self.scoring, graph, positive)
        with_goal(graph, None, self.class_weight)
        if not self.search:
            graph = replace(graph, notes=(*graph.notes, *idle_note(first_point(graph, start, fixed), fixed)))
        for note in graph.notes:
            notice(note)
        with show_log(bool(self.verbose)):
            trained = train(
                graph,
                start,
                fixed,
                self._seed,
                pick_device(self.device),
                search=bool(self.search),
                time_budget=self.time_budget,
                scoring=scoring,
                class_weight=self.class_weight,
                on_trial=logging_trials(on_trial),
                on_epoch=on_epoch,
            )
            LOGGER.info("trained: %s", trained.fitted.model)
        for note in trained.graph.notes[len(graph.notes) :]:  # a validation split that was made up
            notice(note)
        fitted, graph = trained.fitted, trained.graph
        model: Any = fitted.model.cpu()
        p, y = trained.judged.probabilities, trained.judged.y
        if classes is not None:
            average: Any = model if isinstance(model, Average) else Average([model])
            average.classes, average.out_channels, model = tuple(classes.tolist()), whole.num_outputs, average
            graph = with_all_classes(graph, whole)
            p, y = model.of_all(p, 0.0), classes[y]
        model.fit_rows = FitRows.of(graph, p, y)
        self._adopt(model, Schema.of(graph))
        self.ranked_by_ = trained.judged.ranked_by
        self.trials_, self.validation_score_ = list(trained.trials), trained.validation_score
        self.engine_, self.engine_reason_ = fitted.engine, fitted.reason
        self.split_ = {split: graph.rows(split).cpu().numpy() for split in SPLITS}
        self.notes_, self.data_ = list(graph.notes), describe_graph(graph)
        if trained.class_weight is not None:
            named = self.classes_ if classes is None else self.classes_[classes]
            self.class_weight_ = dict(zip(named.tolist(), trained.class_weight, strict=True))
        return self

    def _fit_weighted(self, graph: Graph, sample_weight: Any) -> Self:
        if sample_weight is not None:
            if self.memory_limit is not None or self.hops != "memory":
                raise InputError("rows count the same where hops are not in memory: leave sample_weight out.")
            graph = with_sample_weight(graph, sample_weight)
        return self.fit_graph(graph)

    def _positive_of(self, graph: Graph) -> int | None:
        if self.pos_label is None:
            return None
        if graph.objective.metric != "accuracy" or graph.num_outputs != 2:
            raise InputError("pos_label is for two classes: leave it out here.")
        return class_number(self.pos_label, list(graph.classes or range(2)), graph.y)

    @property
    def _seed(self) -> int:
        """``random_state`` where it is given, else ``seed``."""
        name = "seed" if self.random_state is None else "random_state"
        return check_whole(name, getattr(self, name), 0, MOST_SEED)

    def fixed_settings(self) -> dict[str, Any]:
        """The settings that the user has fixed; an argument counts more than the same name in ``settings``."""
        named = ("backbone", "num_layers", "hidden_channels", *self._more)
        arguments = {name: getattr(self, name) for name in named}
        both = (self.settings or {}) | {name: value for name, value in arguments.items() if value is not None}
        return {name: value for name, value in both.items() if value is not None}

    def _check_arguments(self) -> None:
        """What ``Config`` does not see."""
        _ = self._seed
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
        # What only a fit knows, and a loaded model does not.
        self.trials_, self.validation_score_, self.notes_ = list[Any](), float("nan"), list[str]()
        self.split_, self.data_, self.class_weight_ = dict[str, np.ndarray](), dict[str, Any](), None
        self.engine_, self.engine_reason_ = "", ""
        table = schema.encoding is not None and schema.encoding.kind == "table"
        self.n_features_in_ = schema.in_channels
        if table and schema.encoding is not None:
            self.feature_names_in_ = np.array([column.name for column in schema.encoding.columns], dtype=object)
            self.n_features_in_ = len(self.feature_names_in_)
        if schema.objective.metric != "rmse":
            self.classes_ = as_classes(schema.classes or tuple(range(schema.out_channels)))

    def save(self, folder: str | Path, scores: dict[str, Any] | None = None) -> None:
        """Write the model into a folder: safetensors and JSON, no pickle; an older one is replaced in one step.

        Beside it ``MODEL.md`` says for people what the model is, what it learned from and where not to use it. The
        folder holds which rows were in which split, by hashes of their ids and features, and labels and predictions of
        up to 20,000 rows that judged the model; where it sees labels of neighbours, those of the training rows too.

        Args:
            scores: what ``rapgnn.estimators.evaluation.evaluate`` says of the model, for ``MODEL.md``.
        """
        model = self._fitted()
        named = self.scoring if isinstance(self.scoring, str) else None  # a function is not saved
        positive = None if self.pos_label is None else as_plain(self.classes_[self._positive()])
        schema = replace(self.schema_, scoring=named, positive=positive, threshold=self.threshold)
        save_checkpoint(Path(folder), model, schema, model_card(self, scores))

    @own_settings()
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
    @own_settings()
    def load(cls, folder: str | Path) -> Self:
        """The model that ``save`` wrote; it predicts bitwise the same."""
        model, schema = load_checkpoint(Path(folder), columns=cls._columns)
        if not suits(cls._task, schema.task):
            raise InputError(f"the model in {folder} is for {schema.task}, not for {cls._task}.")
        goal = {"scoring": schema.scoring, "pos_label": schema.positive, "threshold": schema.threshold}
        loaded = cls(**goal, seed=model.seed)
        if isinstance(model, Average):
            loaded._adopt(model, schema)
            loaded.engine_, loaded.engine_reason_ = engine_of(model.members)
            return loaded
        changed = {name: value for name, value in model.config.settings().items() if value != getattr(Config(), name)}
        loaded.set_params(search=False, settings=changed or None)
        loaded._adopt(model, schema)
        return loaded

    @property
    def _n_features_out(self) -> int:
        model: Any = self._fitted()
        head: Any = (model.widest if isinstance(model, Average) else model).head
        return len(head.weight if isinstance(head, RidgeHead) else head.input_scale)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.no_validation = True  # a graph is no table: it is checked here
        tags.transformer_tags.preserves_dtype = []
        tags.target_tags.two_d_labels = True
        if tags.classifier_tags is not None:
            tags.classifier_tags.multi_label = True
        if tags.regressor_tags is not None:
            tags.target_tags.multi_output = True
        return tags


# What an estimator says while it works, through Python's ``logging`` (the logger ``rapgnn``).


LOGGER = logging.getLogger("rapgnn")


def logging_trials(then: OnTrial | None) -> OnTrial:
    count = 0

    def on_trial(settings: dict[str, Any], value: float) -> None:
        nonlocal count
        count += 1
        LOGGER.info("candidate %d: %.4f on validation (%s)", count, value, describe(settings))
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
