"""How a time is taken: after the device has finished, the median of several; the loop that a user of PyTorch Geometric
writes; and what fits into memory."""

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rapgnn import Config, Graph
from rapgnn.compare import Record
from rapgnn.device import free_memory as free_device_memory
from rapgnn.graph.operator import GraphOperator
from rapgnn.network.rapgnn import RAPGNN, PreparedGraph
from rapgnn.training.fit import Fitted
from rapgnn.training.loop import Loop

ROW_SECONDS = 30.0  # that the repetitions of one row may take, from the second on
COPIED = {"cpu": 1 << 28, "cuda": 1 << 31}  # bytes that are copied to measure the bandwidth: more than any cache holds
FITS = 0.8  # of the free memory that something may need
WORST = (-math.inf, -math.inf)


def wait(device: torch.device | str) -> None:
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


def seconds_of(work: Callable[[], Any], device: torch.device | str) -> float:
    wait(device)
    start = time.perf_counter()
    work()
    wait(device)
    return time.perf_counter() - start


@torch.no_grad()
def median_ms(work: Callable[[], Any], device: torch.device | str, repeats: int) -> float:
    """Milliseconds of a call: the median of so many, after one that warms up; fewer where they are slow."""
    first = seconds_of(work, device)
    return 1e3 * statistics.median(seconds_of(work, device) for _ in range(affordable(first, repeats)))


def affordable(seconds: float, repeats: int) -> int:
    """How many repetitions of so many seconds one row may take: at least one."""
    return max(1, min(repeats, int(ROW_SECONDS / max(seconds, 1e-9))))


def log_slopes(
    records: Sequence[Record], quantities: Sequence[str], against: str, places: dict[str, str]
) -> list[Record]:
    """How quantities grow: slopes of log quantity over log ``against`` among the records of each place.

    Args:
        places: fields that are the same in all records of a place, and how the place says their value.
    """
    groups: dict[str, list[Record]] = {}
    for r in records:
        groups.setdefault(", ".join(said.format(r[name]) for name, said in places.items()), []).append(r)
    slopes = []
    for (at, mine), quantity in product(groups.items(), quantities):
        points = [(math.log(r[against]), math.log(r[quantity])) for r in mine if r.get(quantity)]
        if len({x for x, _ in points}) > 1:
            slope = {"slope": statistics.linear_regression(*zip(*points, strict=True)).slope, "points": len(points)}
            slopes.append({"method": "slope", "quantity": quantity, "against": against, "at": at} | slope)
    return slopes


def copy_bandwidth(device: torch.device | str, size: int | None = None, repeats: int = 7) -> float:
    """Gigabytes per second of a copy, what is read and what is written together: the fastest of several."""
    size = size or COPIED[torch.device(device).type]
    source = torch.ones(size // 4, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    return 2 * size / min(seconds_of(lambda: target.copy_(source), device) for _ in range(repeats)) / 1e9


@dataclass(frozen=True)
class Network:
    """A network of PyTorch Geometric: scores and labels of every step of an epoch, scores of the rows of a split, and
    of all rows, with nothing prepared but the graph."""

    module: nn.Module
    steps: Callable[[], Iterable[tuple[Tensor, Tensor]]]
    val: Callable[[], Tensor]
    test: Callable[[], Tensor]
    every: Callable[[], Tensor] | None = None


@dataclass
class Training:
    """What a training took per epoch, its best merit, and the best merit after each epoch."""

    train_ms: list[float] = field(default_factory=list)
    eval_ms: list[float] = field(default_factory=list)
    best: tuple[float, float] = WORST
    curve: list[float] = field(default_factory=list)


def train(
    network: Network,
    optimizer: torch.optim.Optimizer,
    loss: Callable[[Tensor, Tensor], Tensor],
    merit: Callable[[Tensor], tuple[float, float]] | None,
    epochs: int,
    patience: int | None = None,
    stop: Callable[[Sequence[float]], bool] = lambda curve: False,
) -> Training:
    """Train steps with a validation after each epoch, as a user writes them; the best state is loaded at the end.

    ``merit`` of the validation rows' scores is the metric and minus the loss, None without validation; ``stop`` is
    asked after every epoch with the curve so far.
    """
    module, device = network.module, next(network.module.parameters()).device
    done, state, since = Training(), {}, 0
    for _ in range(epochs):
        module.train()
        start = time.perf_counter()
        for scores, y in network.steps():
            optimizer.zero_grad()
            loss(scores, y).backward()
            optimizer.step()
        wait(device)
        middle = time.perf_counter()
        if merit is not None:
            module.eval()
            with torch.no_grad():
                value = merit(network.val())
            since += 1
            if not state or value > done.best:
                state = {name: part.clone() for name, part in module.state_dict().items()}
                done.best, since = value, 0
            wait(device)
        done.train_ms.append(1e3 * (middle - start))
        done.eval_ms.append(1e3 * (time.perf_counter() - middle))
        done.curve.append(done.best[0])
        if stop(done.curve) or (patience is not None and since >= patience):
            break
    if state:
        module.load_state_dict(state)
    module.eval()
    return done


def train_epochs(network: Network, graph: Graph, repeats: int) -> Record:
    """The medians of a training step's and a validation's time, of so many epochs after one that warms up."""
    rule, y = graph.objective, graph.y[graph.val]
    begun, most = time.perf_counter(), [repeats + 1]

    def merit(out: Tensor) -> tuple[float, float]:
        return rule.merit(rule.score(out, y)), -float(rule.loss(out, y))

    def stop(curve: Sequence[float]) -> bool:
        if len(curve) == 1:
            most[0] = 1 + affordable(time.perf_counter() - begun, repeats)
        return len(curve) >= most[0]

    optimizer = torch.optim.Adam(network.module.parameters(), lr=0.01, fused=True)
    done = train(network, optimizer, rule.loss, merit if len(y) else None, repeats + 1, stop=stop)
    step = statistics.median(done.train_ms[1:])
    return _epoch_times(step, statistics.median(done.eval_ms[1:]), len(done.curve) - 1) | {"steady_ms_per_epoch": step}


def loop_times(loop: Loop, whole: bool) -> Record:
    """The times of this package's own loop: ``whole`` the mean of all epochs, because the work of many is done
    together; else the median without the first, where the loop tells the epochs apart."""
    apart = not whole and len(loop.epoch_ms) == loop.epochs > 1
    step = statistics.median(loop.epoch_ms[1:]) if apart else loop.train_ms_per_epoch
    later = loop.epoch_ms[len(loop.epoch_ms) // 2 :]  # without what the first epochs do once
    steady = {"steady_ms_per_epoch": statistics.fmean(later) if later else step}
    return _epoch_times(step, loop.eval_ms_per_epoch, loop.epochs - int(apart)) | steady


def _epoch_times(train_ms: float, eval_ms: float, epochs: int) -> Record:
    times = {"train_ms_per_epoch": train_ms, "eval_ms_per_epoch": eval_ms, "epoch_ms": train_ms + eval_ms}
    return times | {"timed_epochs": epochs}


@dataclass(frozen=True)
class ReadyGraph(Graph):
    """A graph whose operator is built, so that what is measured is training and not the building."""

    built: GraphOperator | None = None

    def operator(self, backbone: str, self_loops: bool = False, eps: float = 0.0) -> GraphOperator:
        assert self.built is not None
        return self.built


def ready(graph: Graph, backbone: str = "gcn") -> ReadyGraph:
    return ReadyGraph(**{f.name: getattr(graph, f.name) for f in fields(Graph)}, built=graph.operator(backbone))


def trained_bytes(graph: Graph, config: Config) -> int:
    """About what end-to-end training keeps for its gradients."""
    return 4 * graph.num_nodes * config.hidden_channels * (5 * config.num_layers + 6)


def message_bytes(graph: Graph, channels: int) -> int:
    """About what a layer of PyG takes that makes a message of every edge."""
    return 2 * 4 * graph.edge_index.shape[1] * channels


def fits(needed: float, device: torch.device | str) -> bool:
    return needed <= FITS * free_memory(device)


def free_memory(device: torch.device | str) -> float:
    """Bytes that can still be taken; infinite where the system does not tell."""
    if torch.device(device).type == "cuda":
        return float(free_device_memory(device))
    info = Path("/proc/meminfo")
    for line in info.read_text().splitlines() if info.exists() else []:
        if line.startswith("MemAvailable:"):
            return 1024.0 * int(line.split()[1])
    return math.inf


def inference_times(fitted: Fitted, graph: Graph, repeats: int) -> Record:
    """Milliseconds of the test rows' scores with everything prepared, and of all rows' by a walk over the graph."""
    device = graph.y.device
    rows = torch.arange(graph.num_rows, device=device)
    test = graph.test if len(graph.test) else rows
    prepared = _prepared_scores(fitted, graph, test)
    if prepared is None and graph.ptr is not None:  # the test graphs alone can be walked over
        prepared = lambda: fitted.predict(test).scores  # noqa: E731
    every = median_ms(lambda: fitted.predict(rows), device, repeats)
    return {
        "infer_ms": every if prepared is None else median_ms(prepared, device, max(repeats, 10)),
        "infer_all_ms": every,
        "infer_rows": graph.num_rows if prepared is None else len(test),
    }


def _prepared_scores(fitted: Fitted, graph: Graph, rows: Tensor) -> Callable[[], Tensor] | None:
    """Scores of these rows from what can be stored of the graph; None where every pass is a new one."""
    model = fitted.model
    if not isinstance(model, RAPGNN):
        return None
    if fitted.engine == "none":
        return lambda: fitted.predict(rows).scores
    with torch.no_grad():
        prepared = PreparedGraph(model.embed(graph.x, graph.operator(model.config.backbone)), rows)
        if prepared.embedded.constant:
            mean = prepared.expectation
            return lambda: model.output(model.head(mean))
        if prepared.engine == "polynomial":
            hops, scorer = prepared.hops, model.scorer().to(rows.device)
            return lambda: scorer(hops)
    return None
