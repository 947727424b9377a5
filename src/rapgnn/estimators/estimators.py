"""scikit-learn's contract for graphs: fit, predict, predict_proba, transform, score; and save, load."""

from inspect import cleandoc
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.metadata_routing import UNUSED
from torch import Tensor

from rapgnn.datasets.columns import Reading, named_options
from rapgnn.datasets.tables import tabular
from rapgnn.device import own_settings
from rapgnn.errors import InputError
from rapgnn.estimators.base import RAPEstimator
from rapgnn.estimators.conformal import check_coverage, half_widths, least_probabilities
from rapgnn.estimators.disk import DiskEstimator, check_alone, on_disk
from rapgnn.estimators.edges import EdgeEstimator
from rapgnn.estimators.links import RAPLinkPredictor
from rapgnn.estimators.predictions import check_graph, is_named, load_named
from rapgnn.estimators.rows import NodeRows
from rapgnn.graph.convert import RawGraph, unpack
from rapgnn.graph.graph import Graph, build_graph, graph_set
from rapgnn.graph.scores import r2
from rapgnn.graph.typed import build_typed, is_typed
from rapgnn.graph.validate import SPLITS
from rapgnn.training.checkpoint import saved_task
from rapgnn.training.schema import Schema


class _Classifier(ClassifierMixin, RAPEstimator):  # type: ignore[misc]
    classes_: np.ndarray
    score: Any = RAPEstimator.score

    @own_settings()
    def predict_proba(
        self,
        data: Any,
        *,
        n_samples: int | None = None,
        return_std: bool = False,
        method: str = "auto",
        rows: Any = None,
        **given: Any,
    ) -> Any:
        """Probabilities ``[rows, classes]``, and with ``return_std`` their standard deviation.

        It is the root of the sum of squares of what ``error_bars`` shows apart; NaN where none of these exists.

        The probabilities are the same numbers with and without ``return_std``: those of the expected scores, which the
        temperature was fitted for. They are not the mean over draws of the probabilities; ``n_samples`` asks for that.

        Args:
            n_samples: the mean over so many draws of the weights; None: the model's own way, one exact pass.
            method: ``"exact"``: the spread from the exact variance, without a draw; ``"sample"``: all by draws.
            rows, given: as in ``predict``.
        """
        found = self._with_spread(data, n_samples, return_std, method, rows, given)
        if not return_std:
            return found.probabilities.numpy()
        assert found.spread is not None
        return found.probabilities.numpy(), found.spread.numpy()

    def predict_set(self, data: Any, coverage: float = 0.9, *, rows: Any = None, **given: Any) -> np.ndarray:
        """Which classes each row may have, ``[rows, classes]`` of True and False: the truth is among them that often.

        Split-conformal, by the rows that judged the model: it holds for rows that are like these, whatever the model,
        and class by class where a class has enough of them. A set may be empty: then no class is likely enough. Of
        many labels, each that is true is in the set that often.

        Args:
            coverage: the share of rows whose set shall hold the truth.
            rows, given: as in ``predict``.
        """
        least = least_probabilities(self.judges(), check_coverage(coverage))
        return self.predict_proba(data, rows=rows, **given) >= least


class _Regressor(RegressorMixin, RAPEstimator):  # type: ignore[misc]
    score: Any = RAPEstimator.score

    @own_settings()
    def predict(  # type: ignore[override]
        self,
        data: Any,
        *,
        n_samples: int | None = None,
        return_std: bool = False,
        method: str = "auto",
        rows: Any = None,
        **given: Any,
    ) -> Any:
        """Numbers of all rows, and with ``return_std`` their standard deviation, as in ``predict_proba``.

        Args:
            n_samples, method: as in the classifiers' ``predict_proba``.
            rows, given: as in the classifiers' ``predict``.
        """
        found = self._with_spread(data, n_samples, return_std, method, rows, given)
        if not return_std:
            return self._read(found.probabilities)
        assert found.spread is not None
        return self._read(found.probabilities), self._read(found.spread)

    def predict_interval(self, data: Any, coverage: float = 0.9, *, rows: Any = None, **given: Any) -> np.ndarray:
        """From where to where each number lies that often, ``[rows, 2]``, or ``[rows, targets, 2]`` of several.

        Split-conformal, by the rows that judged the model: it holds for rows that are like these, whatever the model.

        Args:
            coverage: the share of rows whose interval shall hold the truth.
            rows, given: as in ``predict``.
        """
        width = half_widths(self.judges(), check_coverage(coverage))
        numbers = self.predict(data, rows=rows, **given)
        width = width[0] if numbers.ndim == 1 else width
        return np.stack([numbers - width, numbers + width], axis=-1)

    def _metric(self, scores: Tensor, y: Tensor) -> float:
        return r2(scores, y)


class _NodeEstimator(RAPEstimator):
    __metadata_request__fit: ClassVar[dict[str, Any]] = {"data": UNUSED}

    @own_settings()
    def fit(self, data: Any, y: Any = None, sample_weight: Any = None, **given: Any) -> Self:
        """Train.

        Args:
            sample_weight: how much each row counts in the equations of the head; rows of weight 0 do not train.
            data: a folder of tables, tables by name, or the name of a dataset, with the options of ``load_dataset``
                beside it (``table="orders"``); a PyG
                ``Data``, a graph of networkx or igraph (its attributes are columns), a rapgnn ``Graph``, or node
                features (array, sparse, DataFrame; None: there are none); or ``NodeRows``, the part of a graph's nodes
                that scikit-learn trains on. A graph with types: a PyG ``HeteroData``, or
                ``{"paper": table, …, ("author", "writes", "paper"): edges}``; a type is a table, an array, a number of
                nodes or a ``NodeType``.
            y: labels, words or whole numbers, NaN, None or -1 where unknown; for a regressor numbers, one or several
                per node, NaN or None where unknown; may be a part of ``data``.
            given: where ``data`` is features: ``edge_index`` or ``adjacency``, ``edge_weight``; ``directed``: False
                adds the reverse of edges that are listed one way (say it to ``predict`` too); and the splits
                ``train``, ``val``, ``test`` (masks or node numbers; ``train_mask`` and so on will do;
                ``mask_column`` picks one of several masks side by side). None: a stratified split. Where ``data`` is a
                DataFrame of nodes: ``edges``, another one, and what ``load_dataset`` takes for a folder of tables;
                y may then be the name of a column. With types: ``target``, the type whose nodes are the rows; ``time``,
                of these, in seconds: each row is predicted as of its time.
        """
        if isinstance(self, DiskEstimator) and (disk := on_disk(data)) is not None:
            if sample_weight is not None:
                raise InputError("the rows of a graph on disk count the same: leave sample_weight out.")
            return self.fit_disk(check_alone(disk, y, given))
        if isinstance(data, NodeRows):
            sample_weight = data.of_all(sample_weight)
        return self._fit_weighted(self._read_graph(data, y, given), sample_weight)

    def _read_graph(self, data: Any, y: Any, given: dict[str, Any]) -> Graph:
        if is_named(data):
            data, y, given = load_named(data, y, given, Reading(task=self._kind, seed=self._seed)), None, {}
        if is_typed(data):
            return build_typed(data, y, given, task=self._kind, seed=self._seed)
        if isinstance(data, NodeRows) and (graph := data.of_graph(y)) is not None:
            data, y = graph, None
        if (graph := tabular(data, y, given, Reading(task=self._kind, seed=self._seed))) is not None:
            data, y, given = graph, None, {}
        if isinstance(data, Graph):
            return check_graph(data, self._task, None, y, given)
        return build_graph(self._raw(data, y, given), task=self._kind, seed=self._seed)

    def _graph_for(self, schema: Schema, data: Any, y: Any, given: dict[str, Any], labelled: bool) -> Graph:
        named = schema.classes is not None or schema.objective.metric == "rmse"
        classes = schema.classes if named else tuple(range(schema.out_channels))
        known: dict[str, Any] = {"classes": classes, "encoding": schema.encoding, "trained": True, "labelled": labelled}
        if is_typed(data):
            return build_typed(data, y, given, task=self._kind, types=schema.types, **known)
        return build_graph(self._raw(data, y, given), task=self._kind, **known)

    def _raw(self, data: Any, y: Any, given: dict[str, Any]) -> RawGraph:
        named = named_options(given, ("edge_index", "adjacency", "edge_weight", "directed", "mask_column", *SPLITS))
        if not isinstance(data, NodeRows):
            return unpack(data, y=y, **named)
        if named:
            raise InputError("NodeRows bring their own edges and splits: give nothing beside them but labels.")
        return data.unpacked(y, self._kind == "regression")


class RAPNodeClassifier(_NodeEstimator, _Classifier, DiskEstimator):
    """Classes, or many labels, for the nodes of one graph, in memory or on disk (``DiskGraph``).

    ``RAPNodeClassifier().fit(data)`` averages the best of many candidates, as validation decides; with a setting given
    it chooses the others, for one network. Fitted: ``classes_``, ``config_`` (the settings chosen), ``trials_``,
    ``validation_score_``, ``split_``, ``notes_``, ``engine_``, ``model_``.
    """

    __doc__ = f"{cleandoc(__doc__ or '')}\n\n{cleandoc(RAPEstimator.__doc__ or '')}"
    _task = "node-classification"


class RAPNodeRegressor(_NodeEstimator, _Regressor):
    """Numbers, one or several, for the nodes of one graph."""

    __doc__ = f"{cleandoc(__doc__ or '')}\n\n{cleandoc(RAPEstimator.__doc__ or '')}"
    _task = "node-regression"


class _GraphEstimator(RAPEstimator):
    __metadata_request__fit: ClassVar[dict[str, Any]] = {"graphs": UNUSED}

    @own_settings()
    def fit(self, graphs: Any, y: Any = None, sample_weight: Any = None, **splits: Any) -> Self:
        """Train on a list of graphs.

        Args:
            sample_weight: how much each graph counts in the equations of the head; those of weight 0 do not train.
            graphs: a list or dataset of PyG ``Data``, of networkx graphs, of tuples (features, edge_index), after
                which edge features (a table), edge weights (one number per edge) or both may come, or a rapgnn
                ``Graph``.
            y: one label per graph; None takes the graphs' own.
            splits: ``train``, ``val``, ``test``: graph numbers or masks; None holds a fifth out for validation, or
                nothing where no setting is given and graphs are at most 1,000. And ``directed``, as for nodes.
        """
        reading = Reading(task=self._kind, seed=self._seed)
        if is_named(graphs):
            graphs, y, splits = load_named(graphs, y, splits, reading), None, {}
        if (graph := tabular(graphs, y, splits, reading, divide=False)) is not None:
            graphs, y, splits = graph, None, {}
        if isinstance(graphs, Graph):
            graph = check_graph(graphs, self._task, None, y, splits)
        else:
            graph = graph_set(graphs, y, task=self._kind, **_with_splits(splits))
        return self._fit_weighted(graph, sample_weight)

    def _graph_for(self, schema: Schema, data: Any, y: Any, given: dict[str, Any], labelled: bool) -> Graph:
        known: dict[str, Any] = {"classes": schema.classes, "encoding": schema.encoding, "labelled": labelled}
        return graph_set(data, y, task=self._kind, trained=True, **known, **_with_splits(given))


class RAPGraphClassifier(_GraphEstimator, _Classifier):
    """Classes, or many labels, for whole graphs."""

    __doc__ = f"{cleandoc(__doc__ or '')}\n\n{cleandoc(RAPEstimator.__doc__ or '')}"
    _task = "graph-classification"


class RAPGraphRegressor(_GraphEstimator, _Regressor):
    """Numbers, one or several, for whole graphs."""

    __doc__ = f"{cleandoc(__doc__ or '')}\n\n{cleandoc(RAPEstimator.__doc__ or '')}"
    _task = "graph-regression"


class RAPEdgeClassifier(EdgeEstimator, _Classifier):
    """Classes of edges: of transactions, ties, reactions.

    An edge is described by its own columns, the nodes at its ends, walks between these, and what the labels of other
    edges say; see ``rapgnn.pairs.edges``. It never sees its own label.
    """

    __doc__ = f"{cleandoc(__doc__ or '')}\n\n{cleandoc(RAPEstimator.__doc__ or '')}"
    _task = "edge-classification"


class RAPEdgeRegressor(EdgeEstimator, _Regressor):
    """Numbers of edges: ratings, amounts, times."""

    __doc__ = f"{cleandoc(__doc__ or '')}\n\n{cleandoc(RAPEstimator.__doc__ or '')}"
    _task = "edge-regression"


def estimator_for(task: str) -> Any:
    """The estimator for a task, a name from ``TASKS``."""
    return ESTIMATORS[task.replace("multilabel", "classification")]


ESTIMATORS: dict[str, Any] = {
    "node-classification": RAPNodeClassifier,
    "node-regression": RAPNodeRegressor,
    "graph-classification": RAPGraphClassifier,
    "graph-regression": RAPGraphRegressor,
    "link-classification": RAPLinkPredictor,
    "edge-classification": RAPEdgeClassifier,
    "edge-regression": RAPEdgeRegressor,
}


def load_model(folder: str | Path) -> Any:
    """The model that ``save`` or ``rapgnn fit`` wrote into a folder, as the estimator that it is."""
    return estimator_for(saved_task(Path(folder))).load(folder)


def _with_splits(given: dict[str, Any]) -> dict[str, Any]:
    named = named_options(given, (*SPLITS, "directed"))
    directed = named.pop("directed", None)
    return {"splits": {k: v for k, v in named.items() if v is not None} or None, "directed": directed}
