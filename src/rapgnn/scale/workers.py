"""The processes that share the blocks of columns: who they are, and what they tell each other."""

import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import Store, TCPStore  # type: ignore[attr-defined]

from rapgnn.errors import InputError

PORT_KEY = "rapgnn/port"
PATIENCE = timedelta(minutes=30)  # how long the workers look for each other


@dataclass(frozen=True)
class Workers:
    """This process and the others of its group; a process alone is a group of one, and nothing travels.

    Args:
        device: where a worker computes, and what travels lies: gloo sends from the CPU, NCCL from a GPU.
    """

    device: torch.device
    rank: int = 0
    size: int = 1

    def at_first(self, do: Callable[[], Any]) -> None:
        """Worker 0 does something, the others wait for it; where it is refused, all of them raise the same sentence."""
        refusal: InputError | None = None
        if self.rank == 0:
            try:
                do()
            except InputError as error:
                refusal = error
        text = torch.tensor(list(str(refusal or "").encode()), dtype=torch.uint8)
        length = int(self.total(torch.tensor(len(text))))
        if length:
            sentence = torch.zeros(length, dtype=torch.uint8)
            sentence[: len(text)] = text
            sentence = self.total(sentence)
            raise refusal or InputError(bytes(sentence.tolist()).decode())

    def share(self, tensors: Iterable[Tensor]) -> None:
        """Give every worker what these tensors are at worker 0."""
        for tensor in tensors if self.size > 1 else ():
            moved = tensor.detach().to(self.device, copy=True)
            dist.broadcast(moved, 0)
            tensor.detach().copy_(moved)

    def total(self, values: Tensor, how: str = "SUM") -> Tensor:
        """The workers' values added up, or the ``MIN`` of them, at every worker."""
        if self.size == 1:
            return values
        moved = values.to(self.device, copy=True)
        dist.all_reduce(moved, getattr(dist.ReduceOp, how))
        return moved.to(values.device)

    def smallest(self, value: float) -> float:
        """The smallest of the workers' values."""
        return float(self.total(torch.tensor(float(value), dtype=torch.float64), "MIN"))

    def wait(self) -> None:
        """Until all workers are here."""
        self.smallest(0)


ALONE = Workers(torch.device("cpu"))


def started_by_torchrun() -> bool:
    """Whether this process is one of several that torchrun (or another launcher with its variables) started."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


@contextmanager
def joined(device: str = "cpu") -> Iterator[Workers]:
    """Join the group that torchrun's variables name, and leave it at the end; without them a group of one.

    A group that the caller has joined already is taken as it is, and not left.

    Args:
        device: ``cpu`` (gloo), or ``cuda`` (NCCL, one GPU per worker of a machine).
    """
    if not dist.is_initialized() and not started_by_torchrun():
        yield Workers(torch.device(device))
        return
    at = _own_gpu() if device == "cuda" else torch.device("cpu")
    if dist.is_initialized():
        yield Workers(at, dist.get_rank(), dist.get_world_size())
        return
    # Its functions keep the group as a default value if there is one when they are imported, which torch does in the
    # middle of training. The group's threads would outlive it, and now and then end the process with an error.
    import_module("torch.distributed.nn.functional")
    if at.type == "cuda":
        torch.cuda.set_device(at)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    backend = "nccl" if at.type == "cuda" else "gloo"
    longest = timedelta(hours=12)  # until the first of them, which trains embedding and head, is heard of
    dist.init_process_group(backend, store=_meeting_place(rank, size), rank=rank, world_size=size, timeout=longest)
    try:
        workers = Workers(at, rank, size)
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
        announced = int(shared.get(PORT_KEY))
        try:
            socket.create_connection((host, announced), timeout=2.0).close()
        except OSError:  # of a start before this one
            time.sleep(0.05)
            continue
        return TCPStore(host, announced, size, is_master=False, timeout=PATIENCE)
    raise InputError(f"worker {rank} has not found worker 0 at {host} for {PATIENCE}.")


def _own_gpu() -> torch.device:
    """The GPU of this worker: torchrun numbers the workers of a machine."""
    here, there = int(os.environ.get("LOCAL_RANK", 0)), torch.cuda.device_count()
    if here >= there:
        raise InputError(f"worker {here} of this machine has no GPU of its own: there are {there}; start fewer.")
    return torch.device("cuda", here)
