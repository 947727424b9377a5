"""Readouts on features that never change: ridge for one penalty after another, or a small network."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from torch import Tensor, nn

from rapgnn.graph.graph import Graph
from rapgnn.layers.dropout import Noise
from rapgnn.layers.heads import Head
from rapgnn.layers.ridge import RidgeHead, RidgeRegression, RidgeSolution
from rapgnn.layers.targets import TargetScale
from rapgnn.prng import Stream, seeded
from rapgnn.training.loop import Loop, optimise, shuffled, validator
from rapgnn.training.solve import RIDGES, ridge_targets, row_weights

Merit = tuple[float, float]
WORST = (-float("inf"), -float("inf"))


@dataclass
class Choice:
    """The best readout so far, and the validation metric of all that were tried, in their order.

    Args:
        head: the best; named: its settings in words.
    """

    merit: Merit = WORST
    head: nn.Module | None = None
    named: dict[str, float | str] = field(default_factory=dict)
    history: list[float] = field(default_factory=list)
    at: int = 0

    def see(self, metric: float, merit: Merit) -> bool:
        """Take one more; whether it is the best now. The first is, whatever it is worth."""
        self.history.append(metric)
        known = (
            merit[0] if merit[0] == merit[0] else -float("inf"),
            merit[1] if merit[1] == merit[1] else -float("inf"),
        )
        if len(self.history) > 1 and known <= self.merit:
            return False
        self.merit, self.at = known, len(self.history) - 1
        return True


class Readouts:
    """What can be put on the features of a graph's training rows, judged by its validation rows.

    Args:
        train, val: features of these rows.
        output: the scale of targets that are numbers.
    """

    def __init__(self, graph: Graph, train: Tensor, val: Tensor, output: TargetScale):
        self.graph, self.train, self.val, self.output = graph, train, val, output
        self.y_val = graph.y[graph.val]

    def ridge(self) -> Iterator[RidgeSolution]:
        """The solutions for all penalties; for 1 alone where there is no validation row to choose by."""
        targets = ridge_targets(self, self.graph, self.train.dtype)
        regression = RidgeRegression(self.train, targets, weights=row_weights(self.graph))
        yield from map(regression.solve, RIDGES if len(self.y_val) else (1.0,))

    def try_ridge(self, choice: Choice) -> bool:
        """Try all penalties; whether one of them is the best of all so far."""
        best, rule = None, self.graph.objective
        for solution in self.ridge():
            head = RidgeHead(self.train.shape[1], self.graph.num_outputs).to(self.train)
            head.take(solution)
            if not len(self.y_val):
                choice.merit, best = WORST, head
                continue
            if rule.scoring is not None and rule.metric != "rmse":  # probabilities count, not only their order
                head.fit_temperature(rule, self.val, self.y_val)
            scores = self.output(head(self.val))
            metric = rule.score(scores, self.y_val)
            if choice.see(metric, (rule.merit(metric), -float(rule.loss(scores, self.y_val)))):
                best = head
        if best is not None:
            if len(self.y_val) and rule.metric != "rmse":
                best.fit_temperature(rule, self.val, self.y_val)
            choice.head, choice.named = best, {"readout": "ridge", "penalty": best.penalty or 0.0}
        return best is not None

    def try_network(self, choice: Choice, head: Head, settings: "Gradient", seed: int) -> bool:
        """Train a head; every epoch counts as one that was tried. Nothing is tried without validation rows."""
        if not len(self.y_val):
            return False
        loop, first = self.train_network(head, settings, seed, seeded(seed, Stream.DROPOUT)), len(choice.history)
        choice.history += loop.history
        if loop.best is None or (first and loop.best <= choice.merit):
            return False
        choice.merit, choice.at, choice.head = loop.best, first + loop.best_epoch, head.eval()
        choice.named = {"readout": "network", "epoch": loop.best_epoch}
        return True

    def train_network(self, head: Head, settings: "Gradient", seed: int, noise: Noise) -> Loop:
        """Train a head by gradient descent; validation chooses the epoch."""
        y, order = self.output.standardise(self.graph.y[self.graph.train]), seeded(seed, Stream.BATCHES)

        def passes(epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
            for batch in shuffled(len(self.train), settings.batch_size, order, self.train.device):
                yield head(self.train[batch], noise), y[batch]

        rule = self.graph.objective
        return optimise(
            [head],
            passes,
            rule,
            lr=settings.learning_rate,
            weight_decay=settings.weight_decay,
            epochs=settings.epochs,
            patience=settings.patience,
            validate=validator(rule, self.y_val, lambda epoch: self.output(head(self.val))),
        )


@dataclass(frozen=True)
class Gradient:
    """How a network readout is trained; with ``patience`` it stops after so many epochs without a better one."""

    epochs: int
    learning_rate: float
    weight_decay: float
    batch_size: int
    patience: int | None = None
