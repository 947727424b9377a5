"""Training on a graph that several workers share: hops and head, by all of them together."""

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from rapgnn.errors import InputError
from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.graph.tasks import Objective
from rapgnn.network.config import Config
from rapgnn.network.heads import Head
from rapgnn.network.mlp import dropout_generator
from rapgnn.network.rapgnn import RAPGNN
from rapgnn.network.representation import Representation
from rapgnn.network.ridge import RidgeHead, RidgeSums, same_gaps
from rapgnn.prng import Stream, seeded
from rapgnn.scale.blocks import Budget, OnHop
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.distributed.group import Workers
from rapgnn.scale.distributed.hops import distributed_hops, share_state
from rapgnn.scale.fit import FittedOnDisk, StreamedRidge, begin, ridge_sums
from rapgnn.scale.hops import one_by_one
from rapgnn.scale.store import HopStore
from rapgnn.scale.stored import StoredGraph, StoredRows
from rapgnn.training.head import lower_unseen
from rapgnn.training.loop import Loop, OnEpoch, optimise, schedule, shuffled, validator
from rapgnn.training.solve import ridge_targets, row_weights, solve_head


@torch.inference_mode(False)
def fit_together(
    graph: DiskGraph,
    small: Graph,
    nodes: np.ndarray,
    config: Config,
    seed: int,
    budget: Budget,
    store: Path | None = None,
    on_hop: OnHop = lambda done, of: None,
    on_epoch: OnEpoch | None = None,
    *,
    workers: Workers,
) -> FittedOnDisk:
    """``fit_on_disk`` by all workers, who end with the same model: phase 1 at worker 0, then the hops, then the head.

    Args:
        small, nodes: what ``labelled_rows`` gives.
        budget: of each worker.
        store: a folder for the hops that all workers see, or one that has them.
        workers: from ``group.joined``; every one of them calls this.
    """
    if store is None:
        raise InputError("several workers need a folder for the hops that all of them see: name a store.")
    model = begin(graph, small, nodes, config, seed, phase1=workers.rank == 0)
    share_state(workers, model)
    filled, reason = distributed_hops(workers, graph, nodes, model, budget, store, on_hop)
    loop = _train(workers, model, replace(small, x=torch.zeros(len(nodes), 1)), nodes, filled, on_epoch)
    return FittedOnDisk(model.cpu().eval(), loop, reason, len(filled.blocks))


def _train(
    workers: Workers, model: RAPGNN, small: Graph, nodes: np.ndarray, store: HopStore, on_epoch: OnEpoch | None
) -> Loop:
    head = model.head
    device = torch.device("cpu") if isinstance(head, RidgeHead) else workers.device
    model, small = model.to(device), small.to(device)
    nothing = GraphOperator(one_by_one(1.0, device))
    there: dict[str, Any] = {"store": store, "numbers": nodes, "device": device, "load": True}
    embedded = StoredGraph(
        model.spec, nothing, small.x, model.embedding, "polynomial", "hops are stored", small.x, None, **there
    )
    own = share(len(small.train), workers)
    val = small.val[share(len(small.val), workers)]
    if not isinstance(head, RidgeHead):
        lower_unseen(head, small)
        expected = embedded.expectation(val)
        held = (lambda epoch: expected) if len(small.val) else None
        data = LabelledShare(embedded.rows(small.train[own]), small.y[small.train], held, small.y[val])
        return train_together(workers, model, head, small.objective, data, on_epoch)
    problem = None  # where rows are fewer than unknowns, every worker solves the equations of all rows
    if 2 * len(small.train) > model.embedding.out_channels * len(model.spec.outputs):
        rows, held_rows = embedded.nodes(small.train[own]), embedded.nodes(val)
        assert rows is not None
        assert held_rows is not None
        targets, weights = ridge_targets(model, small, torch.float32), row_weights(small)
        problem = SharedRidge(workers, rows, held_rows, targets, weights, own)
    return solve_head(model, head, small, embedded, on_epoch, problem)


# The head, trained by all workers: each holds a share of the labelled rows, gradients are averaged.
# Weights and batches are drawn from the same seed everywhere, so a step sees the same rows and the same draw as in one
# process; only where the rows lie differs, and what dropout draws.


WORKERS = 1 << 20  # streams of dropout, one per worker, that lie apart from all others


def share(rows: int, workers: Workers) -> slice:
    """This worker's share of so many rows: ranges that follow one another, their sizes differ by one at most."""
    return slice(rows * workers.rank // workers.size, rows * (workers.rank + 1) // workers.size)


@dataclass(frozen=True)
class LabelledShare:
    """What a worker trains on.

    Args:
        train: the representation of its share of the training rows.
        labels: of all training rows, on every worker.
        held: epoch -> the representation of its share of the validation rows; None where there are none.
        held_labels: of its share of the validation rows.
    """

    train: Representation
    labels: Tensor
    held: Callable[[int], Tensor] | None
    held_labels: Tensor


def train_together(
    workers: Workers,
    model: RAPGNN,
    head: Head,
    objective: Objective,
    data: LabelledShare,
    on_epoch: OnEpoch | None = None,
) -> Loop:
    """Train the head; all workers end with the same one, and the same record of the training.

    Args:
        model: the same on every worker: built from one seed.
    """
    if model.config.batch_norm and len(head.mlp.linears()) > 1 and workers.size > 1:
        raise InputError("batch_norm looks at all rows of a batch, which lie on several workers: leave it out.")
    fit_input_scale_together(workers, head, data.train, model.config)
    # The head's own shift and scale are constants by now: only its MLP has gradients to average.
    mlp = head.mlp if workers.size == 1 else DistributedDataParallel(head.mlp)
    batches = SharedBatches(workers, model, lambda h, generator: mlp(head.scaled(h), generator), data)
    y = workers.gather_all(data.held_labels)
    held = data.held

    def scores(epoch: int) -> Tensor:
        assert held is not None
        return model.output(workers.gather_all(head(held(epoch))))

    loop = optimise(
        [head],
        batches,
        replace(objective, loss=lambda scores, y: batches.loss(objective, scores, y)),
        **schedule(model.config),
        validate=None if held is None else validator(objective, y, scores),
        on_epoch=on_epoch,
    )
    model.draw_counter.fill_(batches.steps)
    if workers.size > 1:
        del mlp, batches
        gc.collect()  # what averages gradients must be gone before the group is left
    return loop


class SharedBatches:
    """epoch -> (scores, labels) of this worker's rows of one batch after another; all workers have the same draws."""

    def __init__(self, workers: Workers, model: RAPGNN, head: Callable[..., Tensor], data: LabelledShare):
        config, weights, rows = model.config, model.spec.weights, len(data.labels)
        assert isinstance(model.head, Head)
        y, self.own = model.output.standardise(data.labels), share(rows, workers)
        self.head, self.workers, self.y = head, workers, y[self.own]
        size = min(config.batch_size or rows, rows)
        per_epoch = -(-rows // size)
        self.steps = config.epochs * per_epoch
        stream = Stream.DROPOUT if workers.size == 1 else (1 << 40) + WORKERS * Stream.DROPOUT + workers.rank
        words = 8 * model.head.mlp.mask_words(size)
        self.generator = dropout_generator(model.seed, stream, y.device, words)
        self._mass, self._all = 0.0, y
        counters = [weights.counter(step, step // per_epoch) for step in range(self.steps)]
        order = seeded(model.seed, Stream.BATCHES)
        batches = (batch for _ in range(config.epochs) for batch in shuffled(rows, size, order, y.device))
        self._per_epoch = per_epoch
        self._drawn = self._draws(data.train, batches, counters)

    def _draws(
        self, rows: Representation, batches: Iterator[Tensor], counters: list[int]
    ) -> Iterator[tuple[Tensor, Tensor]]:
        if self._per_epoch == 1:
            self._mass = mass(self._all)
            yield from ((h, self.y) for h in rows.draws(counters, steps=range(self.steps)))
            return

        def own() -> Iterator[Tensor]:
            for batch in batches:
                self._mass = mass(self._all[batch])
                yield batch[(batch >= self.own.start) & (batch < self.own.stop)] - self.own.start

        yield from ((h, self.y[mine]) for mine, h in rows.batches(own(), counters, steps=range(self.steps)))

    def loss(self, objective: Objective, scores: Tensor, y: Tensor) -> Tensor:
        """This worker's part of the batch's loss, times the number of workers, because gradients are averaged."""
        if not len(y):
            return 0.0 * scores.sum()
        return objective.loss(scores, y) * (self.workers.size * mass(y) / max(1.0, self._mass))

    def __call__(self, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        for _ in range(self._per_epoch):
            h, y = next(self._drawn)
            yield self.head(h, self.generator), y


def mass(y: Tensor) -> float:
    """What a mean loss is divided by: the rows, or the known entries where labels have gaps."""
    return float(len(y)) if y.dim() == 1 else float((y == y).sum())


@torch.no_grad()
def fit_input_scale_together(workers: Workers, head: Head, rows: Representation, config: Config) -> None:
    """Fix the head's shift and scale by the training rows of all workers, where the settings want one."""
    if not (config.rescale or config.standardize):
        return
    n = len(rows.index)
    moments = torch.zeros(2, head.input_scale.numel(), dtype=torch.float64, device=workers.device)
    if n and config.standardize:
        moments[:] = torch.stack(rows.channel_moments())
    elif n:
        mean, square = rows.draw_moments(rows.embedded.spec.weights.counter(0, 0))
        moments[0], moments[1] = mean, square
    total = workers.total(moments * n) / max(1.0, workers.total(torch.tensor(float(n), device=workers.device)))
    head.fit_input_scale(total[0], total[1], config.standardize)


# The ridge head's equations from sums over the rows of all workers.
#
# .. math:: \sum_w \Bigl( G_w + n_w (c_w - c)(c_w - c)^T \Bigr), \qquad c = \sum_w n_w c_w / \sum_w n_w
# is the Gram matrix around the common mean c, given every worker's own around its mean c_w, for n_w rows.


class SharedRidge(StreamedRidge):
    """A ``training.solve.Problem`` whose rows lie on several workers; all of them solve it.

    Args:
        train, val: this worker's shares of the rows.
        targets: of all training rows ``[rows, t]``, on every worker; NaN where unknown.
        weights: of all training rows; None: all the same.
        own: this worker's share of the training rows.
    """

    def __init__(
        self,
        workers: Workers,
        train: StoredRows,
        val: StoredRows,
        targets: Tensor,
        weights: Tensor | None,
        own: slice,
    ):
        super().__init__(train, val, targets, weights)
        self.workers, self.own = workers, own

    def sums(self) -> list[RidgeSums]:
        return [self._sums(columns) for columns, _ in same_gaps(self.targets)]

    def held_out(self, head: RidgeHead) -> Tensor:
        return self.workers.gather_all(super().held_out(head))

    def _sums(self, columns: list[int]) -> RidgeSums:
        """Of labels that are known for the same rows."""
        mine = self.targets[self.own][:, columns]
        weights = None if self.weights is None else self.weights[self.own]
        known = (~mine[:, 0].isnan()).double()
        mass = (known if weights is None else known * weights.double()).sum()
        found = ridge_sums(self.train, mine, weights) if bool(known.any()) and float(mass) > 0 else []
        own = found[0] if found else self._nothing(len(columns))
        total = self._total(mass)
        center, level = self._total(mass * own.center) / total, self._total(mass * own.level) / total
        apart = own.center - center
        gram = self._total(own.gram + mass * torch.outer(apart, apart))
        right = self._total(own.right + mass * torch.outer(apart, own.level - level))
        return RidgeSums(columns, center, level, gram, right, self._total(own.scatter))

    def _nothing(self, labels: int) -> RidgeSums:
        """The sums over no rows."""
        d, outputs = self.train.channels, self.train.outputs
        width = d * outputs
        shapes = (width,), (labels,), (width, width), (width, labels), (d, outputs, outputs)
        return RidgeSums(list(range(labels)), *(torch.zeros(shape, dtype=torch.float64) for shape in shapes))

    def _total(self, values: Tensor) -> Tensor:
        return self.workers.total(values.to(self.workers.device)).cpu()
