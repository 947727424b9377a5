"""Processes of ``torch.distributed`` for tests: forked from one server that has imported torch, so they start fast."""

import multiprocessing
import os
import socket
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

# torch imports its compiler when gradients are averaged for the first time.
PRELOADED = ["rapgnn.scale.distributed.fit", "rapgnn.training.fit", "torch._dynamo"]


def run_together(size: int, folder: Path, function: Callable[..., Any], *given: Any) -> list[Any]:
    """What ``function(*given)`` returns in each of ``size`` workers, which have torchrun's variables.

    Args:
        folder: for their results.
        function: of a module that can be imported, as all of ``given``.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    processes = [
        context.Process(target=_worker, args=(rank, size, port, folder, function, given)) for rank in range(size)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    stuck = [process for process in processes if process.is_alive()]
    for process in stuck:
        process.kill()
        process.join()
    faults = [text.read_text() for text in sorted(folder.glob("*.error"))]
    assert not faults, "\n".join(faults)
    assert not stuck, f"{len(stuck)} of {size} workers did not end"
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(size)]


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def _worker(rank: int, size: int, port: int, folder: Path, function: Callable[..., Any], given: tuple) -> None:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    try:
        torch.save(function(*given), folder / f"{rank}.pt")
    except BaseException:
        (folder / f"{rank}.error").write_text(traceback.format_exc())
        raise
