"""What a model remembers of the rows that it was fitted with: their splits, and predictions of those that judged it."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from rapgnn.graph.graph import Graph
from rapgnn.graph.validate import SPLITS
from rapgnn.network.known_labels import GAP, SeenNodes, features_hash

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
