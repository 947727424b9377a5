"""How a time is taken: after the device has finished, the median of several, and a loop as a user of PyTorch
Geometric writes it."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rapgnn.experiments.run import Record
from rapgnn.graph.tasks import Objective
from rapgnn.training.loop import Loop

ROW_SECONDS = 30.0  # that the repetitions of one row may take, from the second on
COPIED = {"cpu": 1 << 28, "cuda": 1 << 31}  # bytes that are copied to measure the bandwidth: more than any cache holds


def wait(device: torch.device | str) -> None:
    """Until the device has finished."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


def seconds_of(work: Callable[[], Any], device: torch.device | str) -> float:
    """Seconds of one call."""
    wait(device)
    start = time.perf_counter()
    work()
    wait(device)
    return time.perf_counter() - start


@torch.no_grad()
def median_ms(work: Callable[[], Any], device: torch.device | str, repeats: int) -> float:
    """Milliseconds of a call: the median of so many, after one that warms up; fewer where they are slow."""
    first = seconds_of(work, device)
    times = [seconds_of(work, device) for _ in range(affordable(first, repeats))]
    return 1e3 * statistics.median(times)


def affordable(seconds: float, repeats: int) -> int:
    """How many repetitions of so many seconds one row may take: at least one."""
    return max(1, min(repeats, int(ROW_SECONDS / max(seconds, 1e-9))))


def copy_bandwidth(device: torch.device | str, size: int | None = None, repeats: int = 7) -> float:
    """Gigabytes per second of a copy, what is read and what is written together: the fastest of several."""
    size = size or COPIED[torch.device(device).type]
    source = torch.ones(size // 4, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    times = [seconds_of(lambda: target.copy_(source), device) for _ in range(repeats)]
    return 2 * size / min(times) / 1e9


@dataclass(frozen=True)
class Scores:
    """A network and how it scores rows: ``train()`` and ``val()`` of their own rows, ``test()`` likewise, and
    ``every()`` of all nodes with nothing kept but the graph."""

    module: nn.Module
    train: Callable[[], Tensor]
    val: Callable[[], Tensor]
    test: Callable[[], Tensor]
    every: Callable[[], Tensor]


def train_epochs(
    network: Scores, y_train: Tensor, y_val: Tensor, objective: Objective, repeats: int, lr: float = 0.01
) -> Record:
    """Train steps with a validation after each, as a user writes them: the medians of both per epoch.

    Validation is a forward pass in evaluation mode, metric and loss on the validation rows, and a copy of the best
    state.
    """
    module, device = network.module, y_train.device
    optimizer = torch.optim.Adam(module.parameters(), lr=lr, fused=True)
    best: tuple[float, float] = (-float("inf"), -float("inf"))
    state: dict[str, Tensor] = {}
    train_ms: list[float] = []
    eval_ms: list[float] = []
    count = repeats + 1
    while len(train_ms) < count:  # the first one warms up
        module.train()
        start = time.perf_counter()
        optimizer.zero_grad()
        objective.loss(network.train(), y_train).backward()
        optimizer.step()
        wait(device)
        middle = time.perf_counter()
        if len(y_val):
            module.eval()
            with torch.no_grad():
                out = network.val()
                merit = objective.merit(objective.score(out, y_val)), -float(objective.loss(out, y_val))
            if merit > best:
                best, state = merit, {name: value.clone() for name, value in module.state_dict().items()}
            wait(device)
        end = time.perf_counter()
        train_ms.append(1e3 * (middle - start))
        eval_ms.append(1e3 * (end - middle))
        if len(train_ms) == 1:
            count = 1 + affordable(end - start, repeats)
    if state:
        module.load_state_dict(state)
    train = statistics.median(train_ms[1:])
    return epoch_times(train, statistics.median(eval_ms[1:]), count - 1) | {"steady_ms_per_epoch": train}


def loop_times(loop: Loop, whole: bool) -> Record:
    """The times of this package's own loop.

    Args:
        whole: the mean of all epochs, because the work of many is done together; else the median without the first,
            where the loop tells the epochs apart.
    """
    apart = not whole and len(loop.epoch_ms) == loop.epochs > 1
    train = statistics.median(loop.epoch_ms[1:]) if apart else loop.train_ms_per_epoch
    later = loop.epoch_ms[len(loop.epoch_ms) // 2 :]  # without what the first epochs do once
    steady = {"steady_ms_per_epoch": statistics.fmean(later) if later else train}
    return epoch_times(train, loop.eval_ms_per_epoch, loop.epochs - int(apart)) | steady


def epoch_times(train_ms: float, eval_ms: float, epochs: int) -> Record:
    """The keys of an epoch's times."""
    times = {"train_ms_per_epoch": train_ms, "eval_ms_per_epoch": eval_ms, "epoch_ms": train_ms + eval_ms}
    return times | {"timed_epochs": epochs}


def median_times(times: Sequence[Record]) -> Record:
    """Of several runs the median of every time."""
    names = ("train_ms_per_epoch", "eval_ms_per_epoch", "epoch_ms", "steady_ms_per_epoch")
    return times[0] | {name: statistics.median(t[name] for t in times) for name in names}


def with_ratios(records: Sequence[Record], same: Sequence[str]) -> list[Record]:
    """Beside every record its ratios to end-to-end training, ours and PyG's, at the same setting.

    ``speedup_vs_...`` compares epochs with their validation, ``train_speedup_vs_...`` training alone.

    Args:
        same: the keys of a setting.
    """
    found = {(r["method"], *(r.get(key) for key in same)): r for r in records}
    done = []
    for r in records:
        ratios = {}
        for name, method in (("end_to_end", "end-to-end"), ("pyg", "end-to-end-pyg")):
            slow = found.get((method, *(r.get(key) for key in same)), {})
            for prefix, key in (("", "epoch_ms"), ("train_", "train_ms_per_epoch")):
                ratio = slow[key] / r[key] if slow.get(key) and r.get(key) else None
                ratios[f"{prefix}speedup_vs_{name}"] = ratio
        done.append(r | ratios)
    return done
