"""The estimator for nodes on graphs larger than memory: trained from a hop store, predicting some rows at a time."""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from rapgnn.device import pick_device
from rapgnn.errors import InputError, check_choice, notice
from rapgnn.estimators.base import RAPEstimator
from rapgnn.graph.graph import Graph
from rapgnn.graph.rows import hold_out, with_goal
from rapgnn.graph.scores import check_metric, metrics_for
from rapgnn.graph.validate import SPLITS, labelled_rows
from rapgnn.memory import read_size
from rapgnn.network.config import Config
from rapgnn.network.encode import EMBEDDINGS
from rapgnn.network.heads import RidgeHead
from rapgnn.network.rapgnn import RAPGNN
from rapgnn.scale.disk_graph import DiskGraph, is_sealed
from rapgnn.scale.fit import FittedOnDisk, fit, labelled_graph, predict
from rapgnn.scale.homes import home_of, open_home
from rapgnn.scale.hops import Budget, OnHop, hop_folder, silent
from rapgnn.search.portfolio import constrained
from rapgnn.search.search import Trial
from rapgnn.search.start import WIDEST, first_point
from rapgnn.training.predict import Prediction
from rapgnn.training.schema import Schema


def on_disk(data: Any) -> DiskGraph | None:
    """The graph on disk that was given, itself or by its folder; None where it is something else."""
    if isinstance(data, DiskGraph):
        return data
    return DiskGraph.open(data) if isinstance(data, str | Path) and is_sealed(Path(data)) else None


def check_alone(graph: DiskGraph, y: Any, given: dict[str, Any] | None) -> DiskGraph:
    if y is not None or given:
        raise InputError("a graph on disk brings its own labels, edges and splits: give nothing beside it.")
    return graph


class DiskEstimator(RAPEstimator):
    """What an estimator for nodes does with a graph on disk."""

    def transform(self, data: Any, **given: Any) -> np.ndarray:
        if on_disk(data) is not None:
            raise InputError("the representation of a graph on disk is not held in memory: see rapgnn hops.")
        return super().transform(data, **given)

    def _budget(self) -> Budget:
        limit = None if self.memory_limit is None else read_size(self.memory_limit)
        return Budget(limit, pick_device(self.device))

    def fit_graph(self, graph: Graph, on_trial: Any = None, on_epoch: Callable[[], None] | None = None) -> Self:
        """Train on a rapgnn ``Graph``; where its hops are not to be in memory it goes to a temporary folder first."""
        if graph.ptr is not None or (self.memory_limit is None and self.hops == "memory"):
            return super().fit_graph(graph, on_trial, on_epoch)
        self._budget()
        home_of(self.hops)
        with tempfile.TemporaryDirectory(prefix="rapgnn-graph-") as folder:
            return self.fit_disk(DiskGraph.write(Path(folder) / "graph", graph), on_epoch=on_epoch)

    def fit_disk(
        self,
        graph: DiskGraph,
        store: Path | None = None,
        on_hop: OnHop = silent,
        on_epoch: Callable[[], None] | None = None,
    ) -> Self:
        """Train on a graph on disk: the best on validation of the networks that one store of hops serves.

        Args:
            store: a folder to keep the hops of the labelled rows in, or one that has them; None: that of ``hops``, or a
                temporary one.
            on_hop: told how many hops of how many are done, over all blocks of columns.
            on_epoch: called after every epoch.
        """
        self._check_arguments()
        budget, store = self._budget(), store or home_of(self.hops)[2]
        if self.hops == "torchrun" and store is None:
            raise InputError("the workers of torchrun need one folder for the hops: use fit_disk, and name a store.")
        labelled, nodes = labelled_graph(graph, self.scoring, self.class_weight)
        small = with_goal(hold_out(labelled, self._seed), self.scoring, self.class_weight)
        config = self.plain_settings(small)
        with open_home(self.hops, budget.device) as home, hop_folder(graph, store) as folder:
            how: dict[str, Any] = {"store": folder, "on_hop": on_hop, "on_epoch": on_epoch, "home": home}
            fitted, config, trials = _best_of(
                self._points(config, small),
                small,
                lambda point: fit(graph, small, nodes, point, self._seed, budget, **how),
            )
            merit, notes = fitted.best, [*graph.notes, *small.notes]
            chosen, blocks = fitted.model.head, fitted.blocks
            if len(small.train) < len(labelled.train) and isinstance(chosen, RidgeHead):
                # Once its penalty is chosen, a head in closed form needs no validation rows.
                config = config.update(ridge=chosen.penalty)
                fitted = fit(graph, labelled, nodes, config, self._seed, budget, **how)
                head = fitted.model.head
                head.multiply(chosen.inverse_temperature / head.inverse_temperature)
                notes.append("the settings chosen, the head was solved again with the held-out rows too.")
        classes = graph.classes
        if classes is None and graph.task != "node-regression":
            classes = tuple(range(graph.num_outputs))
        sizes = graph.num_features, 0, graph.num_outputs
        self._adopt(fitted.model, Schema(graph.task, *sizes, classes, graph.encoding))
        self.validation_score_ = float("nan") if merit is None else small.objective.merit(merit[0])
        self.trials_ = trials
        self.engine_, self.engine_reason_, self.blocks_ = "polynomial", fitted.reason, blocks
        self.split_ = {split: np.array(graph.rows(split)) for split in SPLITS}
        self.notes_, weights = notes, small.objective.class_weight
        self.data_ = {"dataset": graph.name, "task": graph.task, "nodes": graph.num_nodes}
        self.data_ |= {"edges": graph.num_edges, "features": graph.num_features}
        self.class_weight_ = None if weights is None else dict(zip(self.classes_.tolist(), weights, strict=True))
        for note in small.notes:
            notice(note)
        return self

    def plain_settings(self, small: Graph) -> Config:
        """The settings that are used without a search.

        Args:
            small: what ``labelled_graph`` gives.
        """
        fixed = self.fixed_settings()
        if _bare(fixed):  # wide features cost no memory on disk, so they stay as they are
            fixed = {"embedding": "identity"} | fixed
        return first_point(small, Config(), fixed, components=False)

    def _points(self, config: Config, small: Graph) -> list[Config]:
        """The settings without a search, then networks with solved heads whose hops are among theirs."""
        depth, points = config.num_layers, [config]
        if not self.search or config.head != "ridge" or EMBEDDINGS[config.embedding].mlp or not len(small.val):
            return points
        for jumping, layers in product(("last", "cat"), (depth, 2, 1)):
            width = small.num_features * (1 if jumping == "last" else layers + 1)
            if layers <= depth and width <= max(WIDEST, small.num_features):
                point = config.update(jumping=jumping, num_layers=layers)
                points.append(constrained(point, self.fixed_settings()) or config)
        return list(dict.fromkeys(points))

    def predict_parts(
        self,
        graph: DiskGraph,
        nodes: np.ndarray | None = None,
        error_bars: bool = False,
        store: Path | None = None,
        on_hop: OnHop = silent,
    ) -> Iterator[tuple[np.ndarray, Prediction]]:
        """(nodes, their prediction) of a graph on disk, some nodes at a time, in ascending order.

        Args:
            nodes: ascending; None: all.
            error_bars: whether predictions have a spread, from the exact variance.
            store: a folder for the hops that error bars need, or one that has them; None: a temporary one.
        """
        if not isinstance(self._fitted(), RAPGNN):
            raise InputError(
                "a graph on disk needs a single RAP network, and this model is another: fit with a memory limit."
            )
        self._check_disk(graph)
        how: dict[str, Any] = {"error_bars": error_bars, "store": store, "on_hop": on_hop}
        alone = "memory" if self.hops == "torchrun" else self.hops  # each of several workers predicts by itself
        with open_home(alone) as home:
            given = self.model_, graph, self.schema_.objective, self._budget(), nodes
            yield from predict(*given, **how, home=home)

    def _check_disk(self, graph: DiskGraph) -> DiskGraph:
        schema, count = self.schema_, graph.num_features
        if count != schema.in_channels:
            raise InputError(f"the model was trained with {schema.in_channels} node features, the data have {count}.")
        if graph.task != schema.task or graph.num_outputs > schema.out_channels:
            raise InputError(f"the model is for {schema.task} with {schema.out_channels} outputs, the data are not.")
        return graph

    def _graph(self, data: Any, y: Any = None, given: dict[str, Any] | None = None, labelled: bool = False) -> Any:
        disk = on_disk(data)
        if disk is None:
            return super()._graph(data, y, given, labelled)
        return self._check_disk(check_alone(disk, y, given))

    def _score(self, data: Any, y: Any, split: str | None, scoring: str | None, given: dict[str, Any]) -> float:
        """As in memory, from the predictions of the rows of a split, or of all labelled rows."""
        if on_disk(data) is None:
            return super()._score(data, y, split, scoring, given)
        self._fitted()
        if scoring is not None and scoring != self.scoring:
            raise InputError("a graph on disk is scored by the estimator's own metric: set scoring on the estimator.")
        if split is not None:
            check_choice("split", split, SPLITS)
        graph = self._graph(data, y, given)
        rows = labelled_rows(torch.from_numpy(np.array(graph.y))).numpy() if split is None else graph.rows(split)
        if not len(rows):
            raise InputError(
                "there are no labelled rows to score." if split is None else f"the {split} split is empty."
            )
        value = self.measure_rows(graph, {"rows": np.asarray(rows)})["rows"]
        higher = self.scoring is None or metrics_for(self.schema_.task)[self.scoring].higher
        return value if higher else -value  # as in scikit-learn: more is better

    def measure_rows(self, graph: DiskGraph, groups: dict[str, np.ndarray], on_hop: OnHop = silent) -> dict[str, float]:
        """The metric on each of some groups of rows; one pass over the hops serves all of them."""
        if self.scoring is not None:
            check_metric(self.scoring, self.schema_.task)
        metric = metrics_for(self.schema_.task)[self.scoring] if self.scoring else None
        classes = (self.scoring or self.schema_.objective.metric) == "accuracy"  # a fraction of all scores
        wanted, parts = np.unique(np.concatenate(list(groups.values()))), []
        for _, part in self.predict_parts(graph, wanted, on_hop=on_hop):
            scores = part.scores if metric is None else part.probabilities
            parts.append(part.scores.argmax(dim=1) if classes else scores)
        predicted, values = torch.cat(parts), {}
        for group, rows in groups.items():
            mine, truth = predicted[np.searchsorted(wanted, rows)], torch.from_numpy(np.array(graph.y[rows]))
            if classes:
                values[group] = float((mine == truth).double().mean())
            else:
                values[group] = self._metric(mine, truth) if metric is None else metric.measure(mine, truth)
        return values

    def _prediction(self, graph: Any, rows: Tensor, **how: Any) -> Prediction:
        if not isinstance(graph, DiskGraph):
            return super()._prediction(graph, rows, **how)
        if how.get("inference") not in (None, "auto", "expected"):
            raise InputError("predictions on a graph on disk are exact: leave n_samples and method out.")
        order, places = np.unique(rows.numpy(), return_inverse=True)
        parts = [part for _, part in self.predict_parts(graph, order, bool(how.get("error_bars")))]
        at = torch.from_numpy(places.reshape(-1))
        return Prediction.joined(parts).each(lambda values: values[at])


def _best_of(
    points: Sequence[Config], small: Graph, fit_one: Callable[[Config], FittedOnDisk]
) -> tuple[FittedOnDisk, Config, list[Trial]]:
    """The best on validation, the first where there is none; a further one that the limit has no room for is left."""
    tried, trials = list[tuple[FittedOnDisk, Config]](), list[Trial]()
    for point in points:
        began = time.perf_counter()
        try:
            fitted = fit_one(point)
        except InputError:
            if not tried:
                raise
            continue
        tried.append((fitted, point))
        if fitted.best is not None and len(points) > 1:
            value = small.objective.merit(fitted.best[0])
            trials.append(Trial(point.to_dict(), value, time.perf_counter() - began))
    best = max(tried, key=lambda one: one[0].best or (-float("inf"),))
    return *best, trials


def _bare(fixed: dict[str, Any]) -> bool:
    """Whether the user leaves the embedding and the head open."""
    open_settings = {"embedding", "hidden_channels", "embedding_layers", "embedding_output", "head"}
    return open_settings.isdisjoint(fixed) and not any(name.startswith("pretrain_") for name in fixed)
