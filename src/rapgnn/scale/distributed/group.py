"""The workers of one run: who they are, and how rows and numbers travel between them."""

import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

# Its functions keep the group as a default value if there is one when they are imported, which torch does in the middle
# of training. The group's threads would outlive it, and now and then end the process with an error.
import torch.distributed.nn.functional
from torch import Tensor
from torch.distributed import Store, TCPStore  # type: ignore[attr-defined]

from rapgnn.errors import InputError

PORT_KEY = "rapgnn/port"
PATIENCE = timedelta(minutes=30)  # how long a worker waits for the others before it gives up


def started_by_torchrun() -> bool:
    """Whether this process is one of several that torchrun (or another launcher with its variables) started."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


class Workers:
    """The processes that share a graph; a process alone is a group of one, and nothing travels.

    Args:
        device: where a worker computes, and what travels lies: gloo sends from the CPU, NCCL from a GPU.
    """

    def __init__(self, device: torch.device | str = "cpu"):
        together = dist.is_initialized()
        self.device = torch.device(device)
        self.rank, self.size = (dist.get_rank(), dist.get_world_size()) if together else (0, 1)

    def exchange(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """Part w goes to worker w; what comes back is what every worker had for this one, in the workers' order.

        Args:
            parts: of one type and of one shape but for the number of rows, which may be zero.
        """
        if self.size == 1:
            return [parts[0]]
        sizes = [len(part) for part in parts]
        told = torch.tensor(sizes, dtype=torch.int64, device=self.device)
        expected = torch.empty_like(told)
        dist.all_to_all_single(expected, told)
        return self.exchange_known(torch.cat(list(parts)), sizes, expected.tolist())

    def exchange_known(self, rows: Tensor, sent: list[int], received: list[int]) -> list[Tensor]:
        """``exchange`` where all know how many rows travel: the parts one after another, and the numbers of rows."""
        if self.size == 1:
            return [rows]
        found = rows.new_empty(sum(received), *rows.shape[1:])
        dist.all_to_all_single(found, rows.contiguous(), received, sent)
        return list(found.split(received))

    def at_first(self, do: Callable[[], Any]) -> None:
        """Worker 0 does something, the others wait for it; where it is refused, all of them raise the same sentence."""
        sentence = ""
        if self.rank == 0:
            try:
                do()
            except InputError as error:
                sentence = str(error)
        told = torch.tensor(list(sentence.encode()), dtype=torch.uint8, device=self.device)
        told = self.gather_all(told)
        if len(told):
            raise InputError(bytes(told.tolist()).decode())

    def send(self, rows: Tensor, to: int) -> None:
        """Rows to another worker, which calls ``receive``."""
        dist.send(torch.tensor([len(rows)], dtype=torch.int64, device=self.device), to)
        if len(rows):
            dist.send(rows.contiguous().to(self.device), to)

    def receive(self, sender: int, like: Tensor) -> Tensor:
        """Rows from another worker, on the CPU; ``like`` tells their type and shape but for their number."""
        count = torch.empty(1, dtype=torch.int64, device=self.device)
        dist.recv(count, sender)
        rows = torch.empty(int(count), *like.shape[1:], dtype=like.dtype, device=self.device)
        if len(rows):
            dist.recv(rows, sender)
        return rows.cpu()

    def gather(self, rows: Tensor) -> Tensor | None:
        """The rows of all workers, one worker's after another's, at worker 0; None elsewhere."""
        empty = rows[:0]
        found = self.exchange([rows if w == 0 else empty for w in range(self.size)])
        return torch.cat(found) if self.rank == 0 else None

    def gather_all(self, rows: Tensor) -> Tensor:
        """The rows of all workers, one worker's after another's, at every worker."""
        return torch.cat(self.exchange([rows] * self.size))

    def total(self, values: Tensor) -> Tensor:
        """The workers' values added up, at every worker."""
        if self.size == 1:
            return values
        values = values.clone()
        dist.all_reduce(values)
        return values

    def smallest(self, value: float) -> float:
        """The smallest of the workers' values."""
        return self._reduced(value, "MIN")

    def largest(self, value: float) -> float:
        """The largest of the workers' values."""
        return self._reduced(value, "MAX")

    def _reduced(self, value: float, how: str) -> float:
        if self.size == 1:
            return float(value)
        told = torch.tensor([value], dtype=torch.float64, device=self.device)
        dist.all_reduce(told, getattr(dist.ReduceOp, how))
        return float(told)

    def wait(self) -> None:
        """Until all workers are here."""
        self.smallest(0)

    def __repr__(self) -> str:
        return f"Workers({self.rank} of {self.size}, {self.device})"


@contextmanager
def joined(device: str = "cpu") -> Iterator[Workers]:
    """Join the group that torchrun's variables name, and leave it at the end; without them a group of one.

    A group that the caller has joined already is taken as it is, and not left.

    Args:
        device: ``cpu`` (gloo), ``cuda`` (NCCL, one GPU per worker of a machine), or ``auto``.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if dist.is_initialized():
        yield Workers(_own_gpu() if device == "cuda" else "cpu")
        return
    if not started_by_torchrun():
        yield Workers(device)
        return
    at = _own_gpu() if device == "cuda" else torch.device("cpu")
    if at.type == "cuda":
        torch.cuda.set_device(at)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    backend = "nccl" if at.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=_meeting_place(rank, size), rank=rank, world_size=size, timeout=PATIENCE)
    try:
        workers = Workers(at)
        yield workers
        workers.wait()  # worker 0 holds what the others meet by: it leaves last
    finally:
        dist.destroy_process_group()


def _meeting_place(rank: int, size: int) -> Store:
    """Where the workers tell each other their addresses, new in every start.

    torchrun keeps one store for all restarts, in which a worker that starts again finds the addresses of those that
    were killed. So worker 0 opens another one, and only its port goes through torchrun's.
    """
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return TCPStore(host, port, size, is_master=rank == 0, timeout=PATIENCE)
    shared = TCPStore(host, port, size, is_master=False, timeout=PATIENCE)
    if rank == 0:
        own = TCPStore(host, 0, size, is_master=True, timeout=PATIENCE, wait_for_workers=False)
        shared.set(PORT_KEY, str(own.port))
        return own
    end = time.monotonic() + PATIENCE.total_seconds()
    while time.monotonic() < end:
        told = int(shared.get(PORT_KEY))
        try:
            socket.create_connection((host, told), timeout=2.0).close()
        except OSError:  # of a start before this one
            time.sleep(0.05)
            continue
        return TCPStore(host, told, size, is_master=False, timeout=PATIENCE)
    raise InputError(f"worker {rank} has not found worker 0 at {host} for {PATIENCE}.")


def _own_gpu() -> torch.device:
    """The GPU of this worker: torchrun numbers the workers of a machine."""
    here, there = int(os.environ.get("LOCAL_RANK", 0)), torch.cuda.device_count()
    if here >= there:
        raise InputError(f"worker {here} of this machine has no GPU of its own: there are {there}; start fewer.")
    return torch.device("cuda", here)
