"""End-to-end training of several folds at once, for sets of small graphs.

A step on a batch of small graphs is many kernels of a few microseconds each, far less than launching them takes. So the
folds' networks are stacked and step together, a step is one captured graph of GPU work, and the processor looks at the
results once, at the end. Start values and batches are those of ``fit_end_to_end``; so are the results, up to rounding,
where there is no dropout. (With batch norm the rounding of ``fit_end_to_end`` itself is what differs: see
``stacked``.)
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from rapgnn.captured import Captured, wake_backward
from rapgnn.errors import InputError
from rapgnn.graph.graph import Graph
from rapgnn.graph.tasks import TASKS
from rapgnn.models.config import Config
from rapgnn.models.endtoend import EndToEnd
from rapgnn.models.inputs import model_inputs
from rapgnn.prng import Stream, seeded
from rapgnn.sparse import SparseMatrix
from rapgnn.training.block import copy_all
from rapgnn.training.joined import Batch, GraphSet, Shape
from rapgnn.training.loop import BestEpoch, OnEpoch
from rapgnn.training.orders import Orders, exact_shape, padded
from rapgnn.training.stacked import Adam, Stack

WIDEST = 256  # sparse features that are made dense


@dataclass(frozen=True)
class SideBySide:
    """What the training of one fold gave.

    ``history`` is the validation accuracy after every epoch, ``test_scores`` are those of the fold's test graphs in the
    best one; None where there are no test graphs. Times are those of all folds together: ``seconds`` that the whole
    training took, with what comes before the first epoch.
    """

    history: list[float]
    best_epoch: int
    test_scores: Tensor | None
    train_ms_per_epoch: float
    eval_ms_per_epoch: float
    seconds: float


def fits_side_by_side(graph: Graph, config: Config) -> bool:
    """Whether ``fit_side_by_side`` can train these settings on this graph."""
    classes = graph.ptr is not None and graph.objective == TASKS["graph-classification"]
    narrow = not isinstance(graph.x, SparseMatrix) or graph.num_features <= WIDEST
    layers = config.backbone == "gin" and config.activation == "relu" and not config.train_eps
    return classes and narrow and layers and config.pooling in ("sum", "mean") and config.patience is None


@torch.inference_mode(False)  # also where a user has switched it on
@torch.enable_grad()
def fit_side_by_side(
    folds: Sequence[Graph], config: Config, seeds: Sequence[int], on_epoch: OnEpoch | None = None
) -> list[SideBySide]:
    """One network for each fold and its seed, trained together; every epoch is trained, and validated.

    Args:
        folds: one set of graphs with different splits, all with training and validation graphs.
        seeds: of start values and batches, one per fold; the first one also gives the dropout of all.
        on_epoch: called after every epoch's steps are launched.
    """
    _check(folds, config, seeds)
    start = time.perf_counter()
    run = _Run(folds, config, seeds)
    try:
        clock = _Clock(run.device)
        for epoch in range(config.epochs):
            clock.mark()
            for step in range(run.orders.steps):
                run.step(epoch, step)
            clock.mark()
            if on_epoch:
                on_epoch()
            clock.mark()
            run.evaluate(epoch)
            clock.mark()
        tests = run.test_scores([fold.test for fold in folds])
        histories = zip(*(values.T.tolist() for values in (run.accuracies, run.losses)), strict=True)
        train_ms, eval_ms = clock.means()
    finally:
        run.finish()
    times = train_ms, eval_ms, time.perf_counter() - start
    found = []
    for (accuracies, losses), scores in zip(histories, tests, strict=True):
        best = BestEpoch(folds[0].objective)
        for accuracy, loss in zip(accuracies, losses, strict=True):
            best.see(accuracy, loss)
        found.append(SideBySide(best.history, best.epoch, scores, *times))
    return found


class _Run:
    """The stacked networks, what they are trained on, and the work of a step and of a validation."""

    def __init__(self, folds: Sequence[Graph], config: Config, seeds: Sequence[int]):
        graph, operator = model_inputs(folds[0], config)
        self.device = device = graph.y.device
        wake_backward(device)
        sizes = graph.num_features, graph.num_outputs, config, graph.num_edge_features
        self.graphs = GraphSet(graph, operator, config.pooling)
        self.stack = stack = Stack([EndToEnd(*sizes, seed) for seed in seeds], self.graphs.x)
        self.adam = Adam(stack.parameters, config.lr, config.weight_decay)
        self.generator = seeded(seeds[0], Stream.DROPOUT, device)
        self.nodes, self.entries = self.graphs.sizes.cpu(), self.graphs.blocks.sizes.cpu()
        numbers = len(folds), config.epochs
        self.merit = torch.full((2, numbers[0]), -float("inf"), dtype=torch.float64, device=device)  # the best so far
        self.best = stack.parameters.clone(), stack.statistics.clone()
        self.accuracies = torch.zeros(numbers[::-1], dtype=torch.float64, device=device)
        self.losses = torch.zeros_like(self.accuracies)
        self.seen = torch.zeros_like(self.merit)  # of the epoch that is validated: accuracy and loss
        self.trained = [stack.parameters, stack.statistics, *self.adam.state]
        self.used = [self.generator] if config.dropout else []
        self.validation = self._join([fold.val for fold in folds])
        self.orders = Orders([fold.train for fold in folds], config, seeds, self.nodes, self.entries)
        self.ids = self.orders.ids.to(device)
        self.buffers: dict[Shape, Tensor] = {}
        self.works: dict[Shape, Captured] = {}
        for shape, (epoch, step) in self.orders.examples().items():
            self.buffers[shape] = self.ids[epoch, step, :, : shape.graphs].long()
            work = partial(self._step, shape)
            self.works[shape] = Captured(work, device, partial(self._leave_no_trace, work), self.used)
        self.judge = Captured(self._evaluate, device, partial(self._leave_no_trace, self._evaluate))

    def step(self, epoch: int, step: int) -> None:
        """Every network's next batch."""
        shape = self.orders.shapes[epoch][step]
        self.buffers[shape].copy_(self.ids[epoch, step, :, : shape.graphs])
        self.works[shape]()

    def evaluate(self, epoch: int) -> None:
        """Validation, and the state kept of the networks for which it is the best so far."""
        self.judge()
        self.accuracies[epoch].copy_(self.seen[0])
        self.losses[epoch].copy_(self.seen[1])

    @torch.no_grad()
    def test_scores(self, rows: Sequence[Tensor]) -> list[Tensor | None]:
        """Scores of these graphs, in the best epoch; None where there are none."""
        if not any(map(len, rows)):
            return [None] * len(rows)
        copy_all([self.stack.parameters, self.stack.statistics], list(self.best))
        scores = self.stack(self._join(rows))
        return [part[: len(mine)] if len(mine) else None for part, mine in zip(scores, rows, strict=True)]

    def finish(self) -> None:
        self.works.clear()  # they hold on to this object, and to memory of the GPU
        del self.judge

    def _join(self, rows: Sequence[Tensor]) -> Batch:
        ids = padded(rows, self.graphs.count)
        return self.graphs.join(ids.to(self.device), exact_shape(ids, self.nodes, self.entries))

    def _step(self, shape: Shape) -> None:
        batch = self.graphs.join(self.buffers[shape], shape)
        scores, graphs = self.stack(batch, self.generator), batch.graphs
        classes = torch.arange(scores.shape[2], device=self.device)
        # Of the sum over the networks of each one's mean cross-entropy.
        slope = torch.softmax(scores.detach(), dim=2) - (batch.y[:, :, None] == classes).to(scores.dtype)
        slope *= (graphs.taken / graphs.count.clamp(min=1))[:, :, None]
        self.adam.step(self.stack.gradient(scores, slope), graphs.count.clamp(max=1))

    @torch.no_grad()
    def _evaluate(self) -> None:
        batch, graphs = self.validation, self.validation.graphs
        scores = self.stack(batch)
        found = torch.log_softmax(scores, dim=2).gather(2, batch.y[:, :, None])[:, :, 0]
        loss = (found * graphs.taken).sum(1).neg_() / graphs.count[:, 0]
        right = ((scores.argmax(dim=2) == batch.y) & graphs.taken).sum(1).double() / graphs.count[:, 0].double()
        right.masked_fill_(scores.isnan().flatten(1).any(1), float("nan"))
        self.seen[0], self.seen[1] = right, loss
        # As BestEpoch compares: ties go to the lower loss, and what is no number is never better.
        now = torch.stack([right, -loss.double()])
        better = (now[0] > self.merit[0]) | ((now[0] == self.merit[0]) & (now[1] > self.merit[1]))
        self.merit.copy_(torch.where(better, now, self.merit))
        for best, state in zip(self.best, (self.stack.parameters, self.stack.statistics), strict=True):
            best.copy_(torch.where(better[:, None], state, best))

    def _leave_no_trace(self, work: Callable[[], None]) -> None:
        state = [*self.trained, self.merit, *self.best]
        before, random = [t.clone() for t in state], self.generator.get_state()
        work()
        copy_all(state, before)
        self.generator.set_state(random)


class _Clock:
    """Marks of time, read once at the end: on a GPU those of its own work."""

    def __init__(self, device: torch.device):
        self.device = device
        self.marks: list[float | torch.cuda.Event] = []

    def mark(self) -> None:
        """Four in an epoch: around its steps, and around its validation."""
        if self.device.type != "cuda":
            self.marks.append(1e3 * time.perf_counter())
            return
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self.device))
        self.marks.append(event)

    def means(self) -> tuple[float, float]:
        """Milliseconds of an epoch's steps and of its validation."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        parts = [[_between(*self.marks[i : i + 2]) for i in range(first, len(self.marks), 4)] for first in (0, 2)]
        return sum(parts[0]) / len(parts[0]), sum(parts[1]) / len(parts[1])


def _between(start: float | torch.cuda.Event, end: float | torch.cuda.Event) -> float:
    if isinstance(start, torch.cuda.Event):
        assert isinstance(end, torch.cuda.Event)
        return start.elapsed_time(end)
    assert not isinstance(end, torch.cuda.Event)
    return end - start


def _check(folds: Sequence[Graph], config: Config, seeds: Sequence[int]) -> None:
    if not folds or len(folds) != len(seeds):
        raise InputError(f"each fold needs a seed of its own: there are {len(folds)} folds and {len(seeds)} seeds.")
    first = folds[0]
    if not fits_side_by_side(first, config):
        raise InputError("these graphs or settings cannot be trained side by side: train one fold after another.")
    for fold in folds:
        parts = ((getattr(fold, part), getattr(first, part)) for part in ("y", "ptr", "edge_index"))
        if not all(mine is other or torch.equal(mine, other) for mine, other in parts):
            raise InputError("the folds must be splits of one set of graphs.")
        if not len(fold.train) or not len(fold.val):
            raise InputError("every fold needs training graphs and validation graphs.")
