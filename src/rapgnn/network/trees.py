"""The stage head: gradient-boosted trees, fitted by scikit-learn and held as plain tensors, which files can store."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rapgnn.errors import InputError

ABSENT = -30.0  # score of a class that no training row has
ROWS, TREES = 1 << 11, 64  # whose masks live at once, in the processor's cache
WORD = 62  # leaves that bits of a word stand for, the most that a tree may have
OF_NODES = {
    "feature": torch.int32,
    "threshold": torch.float32,
    "left": torch.int32,
    "right": torch.int32,
    "missing_left": torch.bool,
    "value": torch.float32,
}
"""What a node of a tree has; a leaf is its own child, and its threshold is 0."""
Masks = tuple[Tensor, list[tuple[int, Tensor, Tensor]]]


class TreeHead(nn.Module):
    """Scores Σ_t tree_t(x) of rows x, which may hold NaN, by ``HistGradientBoostingClassifier`` or ``-Regressor``.

    Classes get one score each (softmax), several labels one each (sigmoid), numbers are given as they are.

    Args:
        nodes, trees: how many there are; ``fit`` sets them.
    """

    feature: Tensor
    threshold: Tensor
    left: Tensor
    right: Tensor
    missing_left: Tensor
    value: Tensor
    root: Tensor
    output: Tensor
    base: Tensor

    solved = linear = False

    def __init__(self, in_channels: int, out_channels: int, nodes: int = 0, trees: int = 0):
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels
        self.inverse_temperature = 1.0  # what the scores were multiplied with
        self.register_buffer("base", torch.zeros(out_channels, dtype=torch.float32))
        self.resize(nodes, trees)

    def resize(self, nodes: int, trees: int) -> None:
        self._made: list[Masks] | None = None
        for name, dtype in OF_NODES.items():
            self.register_buffer(name, torch.zeros(nodes, dtype=dtype))
        for name in ("root", "output"):
            self.register_buffer(name, torch.zeros(trees, dtype=torch.int32))

    def fit(
        self,
        x: Tensor,
        y: Tensor,
        weights: Tensor | None = None,
        seed: int = 0,
        metric: str = "accuracy",
        **settings: Any,
    ) -> "TreeHead":
        """Fit to rows ``[m, c]`` and their classes ``[m]``, labels ``[m, k]`` of 0, 1 and NaN, or numbers ``[m, k]``.

        Args:
            metric: that of the task: ``accuracy`` of classes, ``rocauc`` of labels, ``rmse`` of numbers.
            settings: of scikit-learn's ``HistGradientBoosting``, such as ``max_iter`` and ``learning_rate``.
        """
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        of_classes, of_numbers = metric == "accuracy", metric == "rmse"
        make = HistGradientBoostingRegressor if of_numbers else HistGradientBoostingClassifier
        settings = {"early_stopping": False, "random_state": seed % (1 << 32)} | settings
        rows, columns = x.cpu().numpy(), y.cpu().numpy() if y.dim() == 2 else y.cpu().numpy()[:, None]
        base, trees = np.full(self.out_channels, ABSENT if of_classes else 0.0), []
        for place, target in enumerate(columns.T):
            known = np.isfinite(target)
            target = target[known] if of_numbers else target[known].astype(np.int64)
            present = np.unique(target)
            if of_classes:
                base[present] = 0.0
            if len(present) < 2:
                base[place] = base[place] if of_classes or of_numbers or present.any() else ABSENT
                if of_numbers and len(present):
                    base[place] = present[0]
                continue
            share = None if weights is None else weights.cpu().numpy()[known]
            model: Any = make(**settings).fit(rows[known], target, sample_weight=share)
            outputs = [place] if not of_classes else present[1:] if len(present) == 2 else present
            base[outputs] = model._baseline_prediction.ravel()
            trees += [
                (output, tree.nodes) for step in model._predictors for output, tree in zip(outputs, step, strict=True)
            ]
        self._take(base, trees)
        return self

    def _take(self, base: np.ndarray, trees: list[tuple[int, np.ndarray]]) -> None:
        sizes = [len(nodes) for _, nodes in trees]
        root = np.cumsum([0, *sizes])
        nodes = np.concatenate([nodes for _, nodes in trees]) if trees else np.zeros(0, dtype=_NONE)
        leaf, own, start = nodes["is_leaf"].astype(bool), np.arange(len(nodes)), np.repeat(root[:-1], sizes)
        columns = {
            "feature": np.where(leaf, 0, nodes["feature_idx"]),
            "threshold": np.where(leaf, 0, _rounded_down(nodes["num_threshold"])),
            "left": np.where(leaf, own, nodes["left"] + start),
            "right": np.where(leaf, own, nodes["right"] + start),
            "missing_left": nodes["missing_go_to_left"].astype(bool),
            "value": nodes["value"],
            "root": root[:-1],
            "output": np.array([output for output, _ in trees], dtype=np.int32),
            "base": base,
        }
        for name, column in columns.items():
            self.register_buffer(name, torch.from_numpy(np.asarray(column)).to(getattr(self, name)))
        self._made = None

    @torch.no_grad()
    def multiply(self, factor: float) -> None:
        self.value.mul_(factor)
        self.base.mul_(factor)
        self.inverse_temperature *= factor

    @torch.no_grad()
    def forward(self, x: Tensor, generator: object = None, at_once: int = ROWS) -> Tensor:
        """Scores ``[m, out_channels]``, computed on the CPU."""
        self._made = self._masks() if self._made is None else self._made
        return torch.cat([self._scores(rows, self._made) for rows in x.cpu().split(at_once)]).to(x.device)

    def _masks(self) -> list[Masks]:
        """For blocks of trees: their first leaves, and by feature its thresholds and which leaves each leaves possible.

        A node that sends a row to the right rules out the leaves on its left, bits of a word (QuickScorer, Lucchese et
        al., 2015). Trees whose nodes do not stand in scikit-learn's order are refused: they may be none.
        """
        feature, threshold, left, right, root = (
            getattr(self, name).cpu().numpy() for name in ("feature", "threshold", "left", "right", "root")
        )
        own = np.arange(len(feature))
        leaf, tree = left == own, np.searchsorted(root, own, side="right") - 1
        before = np.cumsum(leaf) - leaf  # leaves
        inner, ends = own[~leaf], np.append(root[1:], len(own))
        fine = np.array_equal(np.append(root, len(own))[:1], [0]) and (np.diff(root) > 0).all()
        fine = fine and (left[inner] == inner + 1).all() and (right[inner] > left[inner]).all()
        fine = fine and (right[inner] < ends[tree[inner]]).all() and (feature < self.in_channels).all()
        if not fine or (feature < 0).any() or np.bincount(tree[leaf], minlength=1).max() > WORD:
            raise InputError(f"the boosted trees are damaged, or have more than {WORD} leaves.")
        one, rank = np.int64(1), before - before[root][tree]
        possible = ~((one << rank[right[inner]]) - (one << rank[left[inner]]))
        blocks, start = list[Masks](), torch.from_numpy(before[root])
        for first in range(0, len(root), TREES):
            tables, count = [], min(TREES, len(root) - first)
            mine = (tree[inner] >= first) & (tree[inner] < first + count)
            for f in np.unique(feature[inner[mine]]):
                nodes = np.flatnonzero(mine & (feature[inner] == f))
                nodes = nodes[np.argsort(threshold[inner[nodes]], kind="stable")]
                table = np.full((len(nodes) + 2, count), -1, dtype=np.int64)  # the last: where the value is missing
                column = tree[inner[nodes]] - first
                table[np.arange(1, len(nodes) + 1), column] = possible[nodes]
                table[:-1] = np.bitwise_and.accumulate(table[:-1])
                goes = ~self.missing_left.cpu().numpy()[inner[nodes]]
                np.bitwise_and.at(table[-1], column[goes], possible[nodes][goes])
                tables.append((int(f), torch.from_numpy(threshold[inner[nodes]]), torch.from_numpy(table)))
            blocks.append((start[first : first + count], tables))
        return blocks

    def _scores(self, x: Tensor, masks: list[Masks]) -> Tensor:
        leaves = self.value[self.left == torch.arange(len(self.left), device=self.left.device)].cpu()
        scores, outputs = self.base.double().cpu().repeat(len(x), 1), iter(self.output.tolist())
        for start, tables in masks:
            possible = torch.full((len(x), len(start)), -1, dtype=torch.int64)
            for f, thresholds, table in tables:
                column = x[:, f].contiguous()
                place = torch.searchsorted(thresholds, column)  # thresholds that are below
                possible &= table.index_select(0, torch.where(column.isnan(), len(thresholds) + 1, place))
            lowest = possible & -possible
            place = (lowest.double().view(torch.int64) >> 52) - 1023  # the exponent
            for value in leaves[start + place].T:
                scores[:, next(outputs)] += value
        return scores.to(x.dtype)


_NONE = [("is_leaf", "u1"), ("feature_idx", "i4"), ("num_threshold", "f8"), ("left", "i4"), ("right", "i4")]
_NONE += [("missing_go_to_left", "u1"), ("value", "f8")]


def _rounded_down(threshold: np.ndarray) -> np.ndarray:
    """The largest 32-bit number that is not above: a 32-bit x is below it exactly where it is below the threshold."""
    largest = np.finfo(np.float32).max
    near = np.clip(threshold, -largest, largest).astype(np.float32)
    return np.where(near > threshold, np.nextafter(near, np.float32(-np.inf)), near)
