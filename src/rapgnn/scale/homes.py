"""Where the hops of a graph on disk are computed: in this process, by several that torchrun started, or on Ray.

A home is a row of ``HOMES``. All of them fill the same hop store with the same numbers.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from rapgnn.errors import InputError, shown
from rapgnn.network.rapgnn import RAPGNN
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.hops import Budget, DiskHops
from rapgnn.scale.workers import ALONE, Workers, joined


@dataclass(frozen=True)
class Home:
    """What computes hops.

    Args:
        hops: the hops of a network on a graph, within a budget.
        workers: the processes that share the work, this one among them; all of them do the same calls.
    """

    hops: Callable[[DiskGraph, RAPGNN, Budget], DiskHops] = DiskHops
    workers: Workers = ALONE


HERE = Home()


@contextmanager
def _of_torchrun(address: str, device: str) -> Iterator[Home]:
    with joined(device) as workers:
        yield Home(lambda graph, model, budget: DiskHops(graph, model, budget, workers), workers)


@contextmanager
def _on_ray(address: str, device: str) -> Iterator[Home]:
    from rapgnn.scale.on_ray import RayHops

    yield Home(lambda graph, model, budget: RayHops(graph, model, budget, address=address or "auto"))


HOMES: dict[str, Callable[[str, str], AbstractContextManager[Home]]] = {
    "memory": lambda address, device: nullcontext(HERE),
    "ray": _on_ray,
    "torchrun": _of_torchrun,
}
"""{a user's word: (address, device) -> a context that gives the home}; the address is what follows in ray://address."""


def home_of(hops: str | Path) -> tuple[str, str, Path | None]:
    """What a user's word means: the home, its address, and the folder for the hops, where one is named."""
    word, _, address = str(hops).partition("://")
    if isinstance(hops, str) and word in HOMES:
        return word, address, None
    if not isinstance(hops, str | Path) or not str(hops) or "://" in str(hops):
        raise InputError(f"hops must be {', '.join(map(repr, HOMES))} or a folder, got {shown(hops)}.")
    near = get_close_matches(word, HOMES, n=1)
    if near and not isinstance(hops, Path) and os.sep not in hops and not Path(hops).exists():
        raise InputError(f'hops {shown(hops)} is no folder: did you mean "{near[0]}"? A new folder is "./{hops}".')
    return "memory", "", Path(hops)


def open_home(hops: str | Path, device: str = "cpu") -> AbstractContextManager[Home]:
    """The home that a user's word means, for as long as the context lasts."""
    word, address, _ = home_of(hops)
    return HOMES[word](address, device)
