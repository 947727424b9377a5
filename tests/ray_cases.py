"""What Ray's processes do in the tests; they import it."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from rapgnn import Config
from rapgnn.errors import InputError
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.hops import Budget, untrained
from rapgnn.scale.on_ray import RayHops, hops_of_block

CONFIG = Config(num_layers=3, backbone="sage", embedding="identity", activation="identity")


def killed_once(graph: DiskGraph, columns: slice, *, marks: Path, **how: Any) -> tuple[int, list[np.ndarray]]:
    """A block whose process is killed the first time; (how often it was tried, the hops)."""
    mark = marks / str(columns.start)
    tried = int(mark.read_text()) + 1 if mark.exists() else 1
    mark.write_text(str(tried))
    if columns.start == 2 and tried == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return tried, hops_of_block(graph, columns, **how)


def fault(graph: DiskGraph, columns: slice) -> None:
    raise InputError(f"column {columns.start} is at fault.")


def drive(folder: str, out: str, address: str) -> None:
    """A driver that stores one column after another, slowly enough to be killed on the way."""
    graph = DiskGraph.open(folder)
    nodes = np.union1d(graph.train, graph.val)
    slowly = lambda done, of: time.sleep(0.2)  # noqa: E731
    RayHops(graph, untrained(graph, CONFIG), Budget(), address=address, width=1).store(out, nodes, slowly)


if __name__ == "__main__":
    drive(*sys.argv[1:])
