"""The head, trained by all workers: each holds a share of the labelled rows, gradients are averaged.

Weights and batches are drawn from the same seed everywhere, so a step sees the same rows and the same draw as in one
process; only where the rows lie differs, and what dropout draws.
"""

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from rapgnn.errors import InputError
from rapgnn.graph.tasks import Objective
from rapgnn.layers.dropout import dropout_generator
from rapgnn.layers.heads import Head
from rapgnn.models.config import Config
from rapgnn.models.rapgnn import RAPGNN
from rapgnn.prng import Stream, seeded
from rapgnn.propagation.representation import Representation
from rapgnn.scale.distributed.group import Workers
from rapgnn.training.loop import Loop, OnEpoch, optimise, schedule, shuffled, validator

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
