"""Links between nodes by scikit-learn's contract: fit, predict_proba, recommend, score, evaluate; save, load."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator
from torch import Tensor

from rapgnn.datasets import load_dataset
from rapgnn.datasets.columns import OPTIONS, Reading, named_options, splits_of
from rapgnn.datasets.tables import FOR_MANY, edge_rows, tabular
from rapgnn.errors import InputError, check_choice, notice, shown
from rapgnn.estimators.base import LOGGER, MOST_SEED, show_log
from rapgnn.estimators.predictions import UnfittedError, is_named, load_named
from rapgnn.graph.convert import ONE_WAY, only_one_way, unpack
from rapgnn.graph.graph import NO_FEATURES, Graph, build_graph
from rapgnn.graph.table import Encoding
from rapgnn.graph.typed import build_typed, is_typed
from rapgnn.graph.validate import SPLITS, check_whole
from rapgnn.network.known_labels import keys_of
from rapgnn.pairs.links import Links, Named, relation_graph
from rapgnn.pairs.measures import binary_measures, held_out_measures
from rapgnn.pairs.model import LinkConfig, LinkModel, LinkSettings, LinksOn, fit_links
from rapgnn.pairs.ranking import ranked
from rapgnn.pairs.splits import NEGATIVES
from rapgnn.training.checkpoint import load_checkpoint, save_checkpoint
from rapgnn.training.schema import Schema

ABOUT_NODES = (FOR_MANY, NO_FEATURES, ONE_WAY)  # notes that are for estimators of nodes
TASK = "link-classification"
BESIDE = ("edge_index", "adjacency", "edge_weight", "directed")  # what may stand beside features


class RAPLinkPredictor(BaseEstimator):
    """Whether two nodes have a link, and which links to recommend; all links of a graph teach it.

    A pair is described by common neighbours, walks between its nodes, leading eigenvectors, and the nodes' features:
    their cosines, and a bilinear form of them in closed form. Boosted trees and a logistic regression of
    these columns are averaged, as held-out links decide. Links that a head learns from are left out of the graph that
    describes them.

    Args:
        negatives: how pairs without a link are drawn that links are told from: ``"random"``, which ranks best, too;
            ``"hard"`` (near in the graph), or ``"mixed"``.
        relation: of a graph with types, tables or a database the links that are predicted, as (source, name, target):
            all nodes are then named by their ids within their type, the source's first. The other relations describe
            them.
        search: False trains the first head alone.
        seed: decides everything random; ``random_state`` is the same, in scikit-learn's word.
        verbose: log every head, through the logger ``rapgnn``.

    Fitted: ``classes_`` (0: no link, 1: link), ``model_``, ``trials_``, ``validation_score_`` (ROC-AUC of the links
    that were held out, against random pairs), ``graph_``.
    """

    def __init__(
        self,
        *,
        negatives: str = "random",
        relation: Sequence[str] | None = None,
        search: bool = True,
        seed: int = 0,
        random_state: int | None = None,
        verbose: bool = False,
    ):
        self.negatives = negatives
        self.relation = relation
        self.search = search
        self.seed = seed
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, data: Any, y: None = None, *, time: Any = None, validation: Any = None, **given: Any) -> Self:
        """Train on the links of a graph.

        Args:
            data: as for ``RAPNodeClassifier``: a folder of tables or the name of a dataset, a PyG ``Data``, a graph of
                networkx or igraph, a rapgnn ``Graph``, or the nodes' features or table; None: nothing but ``edges``.
            time: the column of the edges, or one number per edge, by which the latest links judge the heads.
            validation: links that judge instead, which are none of the graph ``[m, 2]``, as in ``predict_proba``.
            given: ``edges``, a DataFrame, with the options of ``load_dataset``; or ``edge_index`` or ``adjacency``,
                ``edge_weight``, ``directed``.
        """
        if y is not None:
            raise InputError("links bring their own labels: leave y out.")
        if time is not None and self.relation is not None:
            raise InputError("links of one relation are not divided by `time` so far: leave it out.")
        check_choice("negatives", self.negatives, NEGATIVES)
        seed = check_whole("seed", self.seed if self.random_state is None else self.random_state, 0, MOST_SEED)
        graph, types = self._read_graph(data, given)
        for note in graph.notes:
            notice(note)
        parts = Parts.of(graph, data, given)
        links = parts.train
        when = None if time is None else _times(links, graph, data, given, time)
        judging = parts.val if len(parts.val) else None
        if validation is not None:
            judging = self.numbers(validation, graph)
        if judging is not None and bool(links.contains(judging).any()):
            raise InputError("a link of `validation` is a link of the graph too: leave it out of the graph.")
        with show_log(bool(self.verbose)):
            self.model_ = fit_links(
                links,
                node_features(graph),
                LinkSettings(negatives=self.negatives),
                when,
                judging,
                seed,
                bool(self.search),
                LOGGER.info,
                keys_of(graph.ids, graph.num_nodes)[0],
            ).requires_grad_(False)
        about = {"encoding": graph.encoding, "types": types, "relation": self.relation and tuple(self.relation)}
        self.schema_ = Schema(TASK, graph.num_features, 0, 2, classes=(0, 1), **about)
        self.trials_, self.notes_ = self.model_.trials, list(graph.notes)
        self.validation_score_ = self.trials_[-1]["rocauc_random"]
        self.graph_, self.classes_, self._parts = graph, np.array([0, 1]), parts
        self.on_ = self.model_.on(parts.known, node_features(graph))
        return self

    def _read_graph(
        self, data: Any, given: dict[str, Any], schema: Schema | None = None
    ) -> tuple[Graph, dict[str, Any] | None]:
        """The graph of the links, and what a model keeps of its types, where there are any."""
        trained, encoding = schema is not None, None if schema is None else schema.encoding
        if self.relation is None:
            return read_graph(data, given, encoding, trained), None
        kind, types = str(self.relation[0]), None if schema is None else schema.types
        if is_typed(data):
            known = {"types": types, "labelled": False, "trained": trained}
            graph = build_typed(data, None, {"target": kind, **given}, **known, plain=False)
        elif is_named(data):
            reading = Reading(labelled=False, types=types, trained=trained)
            graph = load_named(data, None, {"table": kind, **given}, reading)
        else:
            graph = data if isinstance(data, Graph) else None
        if graph is None or graph.typed is None or graph.typed.clock is not None:
            raise InputError("relation is for graphs with types of nodes, tables and databases, without a time.")
        return relation_graph(graph, self.relation), types or graph.typed.described()

    def numbers(self, pairs: Any, graph: Graph) -> Tensor:
        """Node numbers ``[m, 2]`` of pairs, as ``predict_proba`` takes them."""
        if self.relation is None:
            return as_pairs(pairs, graph)
        table = pd.DataFrame(np.asarray(pairs, dtype=None if hasattr(pairs, "dtype") else object))
        if table.shape[1] < 2:
            raise InputError("pairs have two columns: names of the nodes of both types.")
        return torch.stack([self._nodes(table[side], graph, 2 * side) for side in (0, 1)], 1)

    def _nodes(self, nodes: Any, graph: Graph, end: int = 0) -> Tensor:
        """Numbers of nodes that are at one end of the links."""
        if self.relation is None:
            return as_nodes(nodes, graph)
        kind, ids = str(self.relation[end]), np.array([str(name) for name in graph.ids])  # type: ignore[union-attr]
        return as_nodes([str(Named(kind, name)) for name in np.atleast_1d(nodes)], replace(graph, ids=ids))

    def on_graph(self, data: Any, given: dict[str, Any]) -> tuple[Graph, LinksOn]:
        """The graph that is asked about, and the model on it; None: the one of the training."""
        return self._read(data, given)[:2]

    def _read(self, data: Any, given: dict[str, Any]) -> tuple[Graph, LinksOn, "Parts"]:
        if not hasattr(self, "model_"):
            raise UnfittedError("this RAPLinkPredictor is not fitted yet: call fit first.")
        if data is None and not given:
            if not hasattr(self, "on_"):
                raise InputError("a model that was loaded knows no graph: give data.")
            return self.graph_, self.on_, self._parts
        graph, _ = self._read_graph(data, given, self.schema_)
        if graph.num_features != (width := self.schema_.in_channels):
            raise InputError(f"the model was trained with {width} node features, the data have {graph.num_features}.")
        parts = Parts.of(graph, data, given, self.model_.config.directed)
        return graph, self.model_.on(parts.known, node_features(graph)), parts

    def predict_proba(self, pairs: Any, data: Any = None, **given: Any) -> np.ndarray:
        """``[m, 2]``: the probability of no link and of a link, where as many pairs have one as have none.

        Without direction (u, v) and (v, u) have the same numbers. A pair that is a link of the graph is described with
        that link: leave it out of ``data`` to ask whether it would have been predicted.

        Args:
            pairs: node numbers ``[m, 2]``, or a DataFrame whose first two columns are ids of nodes.
            data, given: a graph as in ``fit``, which may have further nodes; None: that of the training.
        """
        graph, on = self.on_graph(data, given)
        link = on.probabilities(self.numbers(pairs, graph)).numpy()
        return np.stack([1 - link, link], 1)

    def predict(self, pairs: Any, data: Any = None, **given: Any) -> np.ndarray:
        """1 where a link is likelier than none."""
        return (self.predict_proba(pairs, data, **given)[:, 1] > 0.5).astype(np.int64)

    def recommend(self, nodes: Any = None, k: int = 10, data: Any = None, **given: Any) -> pd.DataFrame:
        """The k likeliest new links of some nodes: columns ``node, rank, neighbour, score``.

        Links that are known, and the node itself, are no answers. In a bipartite graph whose nodes of one side are
        numbered first, only nodes of the other side are.

        Args:
            nodes: ids (node numbers where there are none); None: all, of one relation those that it comes from.
            k: how many for each node, as long as there are so many.
            data, given: as in ``predict_proba``.
        """
        graph, on = self.on_graph(data, given)
        numbers = torch.arange(graph.num_nodes) if nodes is None else self._nodes(nodes, graph)
        if nodes is None and self.relation is not None and graph.ids is not None:
            numbers = torch.tensor([i for i, one in enumerate(list(graph.ids)) if one.type == self.relation[0]])
        node, neighbour, score = ranked(on, numbers, check_whole("k", k, 1, 1 << 20))
        names = np.arange(graph.num_nodes) if graph.ids is None else graph.ids
        if self.relation is not None and graph.ids is not None:
            names = np.array([one.name for one in list(graph.ids)], dtype=object)
        table = pd.DataFrame({"node": names[node], "neighbour": names[neighbour], "score": score})
        table.insert(1, "rank", pd.Series(node).groupby(node, sort=False).cumcount().to_numpy() + 1)
        return table

    def score(self, pairs: Any, y: Any, data: Any = None, **given: Any) -> float:
        """The ROC-AUC of pairs with labels 1 (a link) and 0."""
        return self.evaluate(pairs, y, data, **given)["rocauc"]

    def hidden(self, data: Any = None, **given: Any) -> tuple[str, LinksOn, Tensor]:
        """Links that the heads did not learn from, and the model on the graph without them.

        These are the links of the split ``"test"``, else of ``"val"``, that the column ``split`` of the edges names, or
        else those that judged the heads.

        Returns:
            The name of the split, the model on the graph, and the links ``[m, 2]``.
        """
        graph, on, parts = self._read(data, given)
        if len(parts.test):
            return "test", on, parts.test
        names = keys_of(graph.ids, graph.num_nodes)[0]
        links = parts.val if len(parts.val) else self.model_.judged_in(on.links, names)
        if not len(links):
            raise InputError("the data have no link that judged this model: give `pairs`, links that they do not have.")
        return "val", self.model_.on(on.links.without(links), node_features(graph)), links

    def evaluate(
        self, pairs: Any = None, y: Any = None, data: Any = None, *, k: int = 20, **given: Any
    ) -> dict[str, float]:
        """How good the model is: a number by the name of each measure.

        With labels: ``rocauc, average_precision, hits@20, hits@50, hits@100``. Without, the pairs are links that the
        graph does not have: the same against random pairs, and with ``hard_`` before it against near ones, and of the
        recommendations ``mrr, ndcg@k, recall@k``.

        Args:
            pairs: as in ``predict_proba``; None: the links that ``hidden`` gives.
            data, given: as in ``predict_proba``.
            y: 1 for a link, 0 for none; None: all are links.
        """
        if pairs is None:
            _, on, links = self.hidden(data, **given)
        else:
            graph, on = self.on_graph(data, given)
            links = self.numbers(pairs, graph)
        if not len(links):
            raise InputError("there are no pairs to evaluate on.")
        if y is not None:
            truth = np.asarray(y).ravel()
            if len(truth) != len(links) or not np.isin(truth, (0, 1)).all():
                raise InputError(f"y must be 0 or 1 for each of the {len(links)} pairs.")
            return binary_measures(on.probabilities(links).numpy(), truth.astype(np.int64))
        if bool(on.links.contains(links).any()):
            raise InputError("a link that is evaluated is a link of the graph too: leave it out of the data.")
        return held_out_measures(on.probabilities, partial(ranked, on), on.links, links, k, self.model_.seed)

    def report(self, path: str | Path, data: Any = None, **given: Any) -> None:
        """Write one HTML page: how good the model is beside others, where it fails, examples (``rapgnn[report]``).

        Args:
            path: of the page.
            data, given: as in ``predict_proba``; ``hidden`` says which of the links count.
        """
        from rapgnn.report.links import write_link_report

        write_link_report(self, Path(path), data, given)

    def save(self, folder: str | Path) -> None:
        """Write the model into a folder: safetensors and JSON, no pickle; an older one is replaced in one step."""
        if not hasattr(self, "model_"):
            raise UnfittedError("this RAPLinkPredictor is not fitted yet: call fit first.")
        save_checkpoint(Path(folder), self.model_, self.schema_)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """The model that ``save`` wrote; it predicts the same for the same graph, which is given as ``data``."""
        model, schema = load_checkpoint(Path(folder), TASK, _made)
        loaded = cls(seed=model.seed, relation=schema.relation)
        loaded.model_, loaded.schema_, loaded.classes_ = model, schema, np.array([0, 1])
        loaded.trials_, loaded.notes_ = [], []
        return loaded

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.no_validation = True
        return tags


def _made(config: dict[str, Any], seed: int) -> LinkModel:
    known: dict[str, Any] = config | {"heads": tuple(config["heads"])}
    return LinkModel(LinkConfig(**known), seed)


# What a user gives as a graph, as nodes and as pairs.


def read_graph(data: Any, given: dict[str, Any], encoding: Encoding | None = None, trained: bool = False) -> Graph:
    """One graph without labels of its nodes."""
    given = {name: value for name, value in given.items() if value is not None}
    reading = Reading(labelled=False, encoding=encoding, trained=trained)
    if is_typed(data):
        raise InputError("links of a graph with types need relation=(source, name, target).")
    if isinstance(data, str | Path) or isinstance(given.get("edges"), str | Path):
        data, given = load_dataset(data, reading=reading, **named_options(given, (*OPTIONS, "data_dir", "say"))), {}
    elif (table := tabular(data, None, given, reading)) is not None:
        data, given = table, {}
    if isinstance(data, Graph):
        if given:
            raise InputError("a rapgnn Graph brings its own edges: give nothing beside it.")
        if trained and data.read_as is not None and data.encoding != encoding:
            data = data.read_as(encoding=encoding, trained=True, labelled=False)
        graph = data
    else:
        raw = unpack(data, **named_options(given, BESIDE))
        raw = replace(raw, y=None, train=None, val=None, test=None)
        graph = build_graph(raw, labelled=False, encoding=encoding, trained=trained)
    graph = replace(graph, notes=tuple(note for note in graph.notes if not note.startswith(ABOUT_NODES)))
    if graph.ptr is not None or graph.typed is not None:
        raise InputError("links are predicted in one graph: of several types of nodes name relation=, too.")
    return graph


def node_features(graph: Graph) -> Any:
    """The nodes' own features; None where they are degrees and the like, which know the links."""
    structural = graph.encoding is not None and graph.encoding.kind == "structural"
    return None if structural or not graph.num_features else graph.x


def links_of(graph: Graph, directed: bool | None = None) -> Links:
    """The links of a graph.

    Args:
        directed: whether they have a direction; None: they have where edges are listed one way only, and not from one
            side to another.
    """
    if directed is None:
        directed = only_one_way(graph.edge_index.numpy(), graph.num_nodes)
        directed = directed and not Links(graph.num_nodes, graph.edge_index.T).bipartite
    return Links.of(graph.num_nodes, graph.edge_index.T, graph.edge_weight, directed)


@dataclass(frozen=True)
class Parts:
    """The links of a graph that heads learn from, and those that a column ``split`` of the edges sets apart."""

    train: Links
    val: Tensor
    test: Tensor

    @property
    def known(self) -> Links:
        """All but those of the test."""
        links = self.train
        return Links.of(links.n, torch.cat([links.ends, self.val]), None, links.directed) if len(self.val) else links

    @classmethod
    def of(cls, graph: Graph, data: Any, given: dict[str, Any], directed: bool | None = None) -> "Parts":
        """The parts of a graph; ``directed`` as in ``links_of``."""
        links, parts = links_of(graph, directed), {s: torch.zeros(0, 2, dtype=torch.int64) for s in SPLITS}
        directed = links.directed
        uses = () if graph.encoding is None else graph.encoding.uses
        if any(use.column.lower() == "split" or use.column.lower().endswith("_mask") for use in uses):
            rows = edge_rows(data, given, graph)
            for split, numbers in splits_of(rows.frame, {}).items():
                ends = torch.from_numpy(rows.ends[:, numbers].T.copy())
                parts[split] = Links.of(links.n, ends[(ends >= 0).all(1)], None, directed).ends
        if len(parts["val"]) + len(parts["test"]):
            links = links.without(torch.cat([parts["val"], parts["test"]]))
        return cls(links, parts["val"], parts["test"])


def as_nodes(nodes: Any, graph: Graph) -> Tensor:
    """Numbers of nodes that are named by their ids, or by their numbers where they have none."""
    names = pd.Index(np.atleast_1d(np.asarray(nodes, dtype=None if graph.ids is None else object)).ravel())
    ids = pd.RangeIndex(graph.num_nodes) if graph.ids is None else pd.Index(graph.ids)
    if pd.api.types.is_numeric_dtype(ids.infer_objects()) != pd.api.types.is_numeric_dtype(names.infer_objects()):
        ids, names = ids.astype(str), names.astype(str)  # 7 and "7"
    place = ids.get_indexer(names)
    if (place < 0).any():
        raise InputError(f"{shown(names[int((place < 0).argmax())])} is no node of this graph.")
    return torch.from_numpy(place.astype(np.int64))


def as_pairs(pairs: Any, graph: Graph) -> Tensor:
    """Node numbers ``[m, 2]`` of pairs: ids in the first two columns of a DataFrame, else numbers."""
    if isinstance(pairs, pd.DataFrame):
        if pairs.shape[1] < 2:
            raise InputError("a table of pairs has two columns of node ids.")
        sides = [as_nodes(pairs.iloc[:, side].to_numpy(), graph) for side in (0, 1)]
        return torch.stack(sides, 1)
    array = np.asarray(pairs)
    if array.ndim != 2 or array.shape[1] != 2:
        raise InputError(f"pairs must be node numbers of shape [m, 2], or a DataFrame of ids, got {array.shape}.")
    if array.dtype.kind not in "iu":
        if array.size and graph.ids is not None and array.dtype.kind in "OUS":
            return as_nodes(array.ravel(), graph).view(-1, 2)
        if array.size:
            raise InputError(f"pairs must be whole node numbers, or a DataFrame of ids, got {array.dtype}.")
    if array.size and (array.min() < 0 or array.max() >= graph.num_nodes):
        raise InputError(f"pairs must be node numbers from 0 to {graph.num_nodes - 1}.")
    return torch.from_numpy(array.astype(np.int64))


def _times(links: Links, graph: Graph, data: Any, given: dict[str, Any], time: Any) -> np.ndarray:
    """The time of every link, the first where it is listed several times."""
    if isinstance(time, str):
        rows = edge_rows(data, given, graph)
        there = (rows.ends >= 0).all(0)
        ends, values = rows.ends[:, there], rows.times(time)[there]
    else:
        ends, values = graph.edge_index.numpy(), np.asarray(time, dtype=np.float64).ravel()
    if len(values) != ends.shape[1]:
        raise InputError(f"there are {ends.shape[1]} edges but {len(values)} times.")
    if not np.isfinite(values).all():
        raise InputError("every edge needs a time that is a finite number, or a date.")
    keys, pairs = links.key(links.ends).numpy(), torch.from_numpy(ends.T.copy())
    apart = (pairs[:, 0] != pairs[:, 1]).numpy()
    first = np.full(len(keys), np.inf)
    np.minimum.at(first, np.searchsorted(keys, links.key(pairs).numpy()[apart]), values[apart])
    return first
