"""Labels that are known: those of a node's neighbours in the training rows, without the node's own; how a model knows
nodes of its training graph on other graphs; and what it remembers of their splits, and of the rows that judged it."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.graph.validate import SPLITS
from rapgnn.sparse import Features, SparseMatrix, row_block, row_of_entry

ASKED = 1000  # nodes, evenly spread, whose features stand for those of all
GAP = torch.finfo(torch.float32).min  # stands for a label that is not known: a model is saved without NaN


class SeenNodes(nn.Module):
    """Nodes of the training graph (or graphs of the training set), to be known again: by their ids, or by their places.

    Places say little by themselves: another graph has them, too. So without ids a graph has these nodes only if half of
    them or more still have the same features; of many, half of a thousand of them.
    """

    keys: Tensor
    features: Tensor
    named: Tensor

    def __init__(self, count: int):
        super().__init__()
        self.register_buffer("keys", torch.zeros(count, dtype=torch.int64))
        self.register_buffer("features", torch.zeros(count, dtype=torch.int64))
        self.register_buffer("named", torch.zeros((), dtype=torch.bool))

    @classmethod
    def of(cls, graph: Graph, rows: Tensor) -> "SeenNodes":
        """Some nodes of a graph."""
        seen, (keys, named) = cls(len(rows)).to(rows.device), keys_of(graph.ids, graph.num_rows)
        seen.keys.copy_(keys[rows.cpu()])
        seen.named.fill_(named)
        if not named:
            seen.features.copy_(features_hash(graph, rows))
        return seen

    @classmethod
    def named_by(cls, ids: np.ndarray | None, count: int) -> "SeenNodes":
        """All nodes of a type that has no features to look at: by their ids, or by their places."""
        seen, (keys, named) = cls(count), keys_of(ids, count)
        seen.keys.copy_(keys)
        seen.named.fill_(named)
        return seen

    def numbers_of(self, ids: np.ndarray | None, count: int) -> Tensor:
        """Which of them each node of such a type is; -1: none. By places only where there are as many."""
        keys, named = keys_of(ids, count)
        if named != bool(self.named) or (not named and count != len(self.keys)):
            return torch.full((count,), -1)
        return _places(self.keys.cpu(), keys)

    def numbers_in(self, graph: Graph) -> Tensor:
        """Which of them each node of a graph is; -1: none. Of a part, what its nodes are in the whole graph decides."""
        if graph.part is not None:
            return graph.part.known.numbers(self, graph.part.nodes)
        places = self._places_in(graph)
        there = places >= 0
        numbers = torch.full((graph.num_rows,), -1, dtype=torch.int64, device=places.device)
        numbers[places[there]] = there.nonzero()[:, 0]
        return numbers

    def _places_in(self, graph: Graph) -> Tensor:
        """Where each of them is in a graph; -1: nowhere."""
        keys, named = keys_of(graph.ids, graph.num_rows)
        if named != bool(self.named):
            return torch.full_like(self.keys, -1)
        places = _places(keys, self.keys.cpu()).to(self.keys.device)
        there = (places >= 0).nonzero()[:, 0]
        if not named and len(there):
            some = there[:: -(-len(there) // ASKED)]
            same = features_hash(graph, places[some]) == self.features[some]
            if 2 * int(same.sum()) * len(there) < len(places) * len(some):
                return torch.full_like(places, -1)
        return places

    def are_in(self, graph: Graph) -> bool:
        if graph.part is not None:
            return graph.part.known.any(self)
        return bool((self._places_in(graph) >= 0).any())


def _places(keys: Tensor, wanted: Tensor) -> Tensor:
    if not len(keys):
        return torch.full_like(wanted, -1)
    ordered, order = keys.sort()
    at = torch.searchsorted(ordered, wanted).clamp(max=len(keys) - 1)
    return torch.where(ordered[at] == wanted, order[at], -1)


def keys_of(ids: np.ndarray | None, count: int) -> tuple[Tensor, bool]:
    """A number for every row, and whether it is made of an id; otherwise it is the row's place."""
    if ids is None or (ids.dtype.kind in "iu" and np.array_equal(ids, np.arange(len(ids)))):  # numbered by a reader
        return torch.arange(count), False
    hashed = pd.util.hash_pandas_object(pd.Series(ids, dtype=object).astype(str), index=False)  # type: ignore[attr-defined]
    return torch.from_numpy(hashed.to_numpy().view(np.int64).copy()), True


def features_hash(graph: Graph, rows: Tensor) -> Tensor:
    """A hash of the features of every one of some nodes, or of all nodes of a graph of many."""
    if graph.ptr is None:
        return row_hash(row_block(graph.x, rows))
    home = torch.repeat_interleave(torch.arange(graph.num_rows, device=rows.device), graph.ptr.diff().to(rows.device))
    sums = torch.zeros(graph.num_rows, dtype=torch.int64, device=rows.device)
    return sums.index_add_(0, home, row_hash(graph.x))[rows]


class KnownLabels(nn.Module):
    """The training rows of a graph and their labels, as something that can be propagated.

    A training row must not see its own label, which comes back to it on a walk of two steps (and of one, through a
    self-loop): (S Y)_i and (S² Y)_i lose S_ii y_i and (S²)_ii y_i. What is left is what a node without a label would
    see in its place, so that a head that was trained on these rows suits all others.

    Args:
        columns: of the labels: 1 for classes, by their number; otherwise one per output, gaps and all.
    """

    y: Tensor

    def __init__(self, rows: int, columns: int, out_channels: int):
        super().__init__()
        self.out_channels = out_channels
        self.nodes = SeenNodes(rows)
        self.register_buffer("y", torch.zeros(rows, columns, dtype=torch.float32))

    @classmethod
    def of(cls, graph: Graph) -> "KnownLabels":
        """Those of a single graph's training rows."""
        y = graph.y[graph.train]
        known = cls(*known_shape(graph), graph.num_outputs).to(y.device)
        known.nodes = SeenNodes.of(graph, graph.train)
        known.y.copy_(y.reshape(len(y), -1).nan_to_num(GAP) if y.is_floating_point() else y.reshape(len(y), -1))
        return known

    def columns(self, graph: Graph, like: Tensor) -> Tensor:
        """``[nodes, out_channels]``: a 1 for the class, or numbers less their mean; 0 where nothing is known."""
        columns, numbers = like.new_zeros(graph.num_nodes, self.out_channels), self.nodes.numbers_in(graph)
        there = (numbers >= 0).nonzero()[:, 0]
        mine = numbers[there]
        if self.y.shape[1] < self.out_channels:
            columns[there, self.y[mine, 0].long()] = 1.0
        else:
            y = self.y.masked_fill(self.y == GAP, float("nan"))
            columns[there] = (y - y.nanmean(dim=0)).nan_to_num().to(columns.dtype)[mine]
        return columns

    def hops(self, graph: Graph, operator: GraphOperator, like: Tensor, count: int) -> list[Tensor]:
        """Hops 1 to ``count`` of the labels, for all nodes; each row's own label is left out."""
        matrix = operator.matrix
        own = self.columns(graph, like)
        once = matrix @ own
        diagonal, returns = (part.to(like)[:, None] for part in _returns(operator))
        return [once - diagonal * own, *([matrix @ once - returns * own] if count > 1 else [])]


def known_shape(graph: Graph) -> tuple[int, int]:
    """Rows and columns of what is stored of the labels."""
    return len(graph.train), 1 if graph.y.dim() == 1 else graph.num_outputs


def _returns(operator: GraphOperator) -> tuple[Tensor, Tensor]:
    """The diagonals of S and of S²."""
    matrix = operator.matrix.scipy()
    squared = np.asarray(matrix.multiply(matrix.T).sum(axis=1)).ravel()
    return torch.from_numpy(matrix.diagonal()), torch.from_numpy(squared)


# What a model remembers of the rows that it was fitted with.


MOST_JUDGES = 20_000  # rows whose predictions are stored


class FitRows(nn.Module):
    """Rows of the training, validation and test splits, and predictions of rows that the model had not seen.

    Args:
        rows: how many the splits have together.
        judges: how many rows have a prediction: those of validation, or training rows that were left out in turn.
        columns: of their labels: 1 for classes, otherwise one per output.
    """

    split: Tensor
    probabilities: Tensor
    labels: Tensor

    def __init__(self, rows: int, judges: int, columns: int, outputs: int):
        super().__init__()
        self.nodes = SeenNodes(rows)
        self.register_buffer("split", torch.zeros(rows, dtype=torch.uint8))
        self.register_buffer("probabilities", torch.zeros(judges, outputs))
        self.register_buffer("labels", torch.zeros(judges, columns))

    @classmethod
    def of(cls, graph: Graph, probabilities: Tensor, y: Tensor) -> "FitRows":
        """The splits of a graph, and the probabilities (or numbers) that unseen rows with the labels y were given."""
        parts = [graph.rows(split).cpu() for split in SPLITS]
        rows, order = torch.cat(parts).sort()
        codes = torch.cat([torch.full((len(part),), i, dtype=torch.uint8) for i, part in enumerate(parts)])
        probabilities, y = probabilities.cpu(), y.cpu()
        if len(y) > MOST_JUDGES:
            drawn = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))[:MOST_JUDGES]
            probabilities, y = probabilities[drawn], y[drawn]
        found = cls(len(rows), len(y), 1 if y.dim() == 1 else y.shape[1], probabilities.shape[1])
        graph = graph.to("cpu")
        found.nodes = SeenNodes.of(graph, rows)
        found.nodes.features.copy_(features_hash(graph, rows))
        found.split.copy_(codes[order])
        found.probabilities.copy_(probabilities)
        found.labels.copy_(y.reshape(found.labels.shape).float().nan_to_num(GAP))
        return found

    @property
    def shape(self) -> list[int]:
        """The arguments that make one of this size."""
        return [len(self.split), len(self.labels), self.labels.shape[1], self.probabilities.shape[1]]

    @property
    def y(self) -> Tensor:
        """The labels of the rows with a prediction: class numbers, or a table with NaN where unknown."""
        if self.labels.shape[1] < self.probabilities.shape[1]:
            return self.labels[:, 0].long()
        return self.labels.masked_fill(self.labels == GAP, float("nan"))

    def splits_in(self, graph: Graph) -> Mapping[str, Tensor]:
        """The rows of a graph by the split that they were in; none where it has none of them.

        Rows of another graph may have the same ids: half of those that are there must have the same features.
        """
        numbers = self.nodes.numbers_in(graph)
        there = (numbers >= 0).nonzero()[:, 0]
        same = features_hash(graph, there) == self.nodes.features[numbers[there]]
        there = there if 2 * int(same.sum()) >= len(there) else there[:0]
        codes = self.split[numbers[there]]
        return {split: there[codes == i] for i, split in enumerate(SPLITS)}


# Hashes of 64 bits, as whole numbers that wrap around: they add up to the same in any order, on any device.


# The constants of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), as signed numbers.
GOLDEN, _FIRST, _SECOND = -7046029254386353131, -4658895280553007687, -7723592293110705685


def row_hash(x: Features, at_once: int = 1 << 15) -> Tensor:
    """A hash of every row; rows with the same numbers have the same one. Only entries that are not 0 take time."""
    salt = mixed(GOLDEN * torch.arange(1, x.shape[1] + 1, device=x.device))
    empty = mixed(salt)  # of an entry that is 0
    hashes = []
    for start in range(0, x.shape[0], at_once):
        rows = torch.arange(start, min(start + at_once, x.shape[0]), device=x.device)
        row, column, value = _entries(row_block(x, rows))
        more = mixed(GOLDEN * value.to(torch.float32).view(torch.int32).long() + salt[column]) - empty[column]
        hashes.append(mixed(torch.full_like(rows, int(empty.sum())).index_add_(0, row, more)))
    return torch.cat(hashes) if hashes else salt.new_zeros(0)


def _entries(x: Features) -> tuple[Tensor, Tensor, Tensor]:
    if isinstance(x, SparseMatrix):
        row, column, value = row_of_entry(x.crow, x.col).long(), x.col.long(), x.values
        there = value != 0
        return row[there], column[there], value[there]
    row, column = x.nonzero(as_tuple=True)
    return row, column, x[row, column]


def mixed(z: Tensor) -> Tensor:
    """SplitMix64's last step."""
    z = (z ^ _shifted(z, 30)) * _FIRST
    z = (z ^ _shifted(z, 27)) * _SECOND
    return z ^ _shifted(z, 31)


def _shifted(z: Tensor, by: int) -> Tensor:
    """To the right, with zeros from the left."""
    return (z >> by) & ((1 << (64 - by)) - 1)
