"""Several processes and machines on the command line: ``--cluster``, and commands that torchrun starts many times."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rapgnn.errors import InputError

ClusterOption = Annotated[str | None, typer.Option("--cluster", help="Hops on Ray: auto, or its address.")]


def check_workers(data: str) -> None:
    """Refuse tables where torchrun started this process: many would convert them at once."""
    from rapgnn.scale.manifest import is_sealed

    if _together() and not is_sealed(Path(data)):
        raise InputError(f"the workers share a graph on disk, made by rapgnn data convert: {data} is none.")


def hops_here(graph: Any, nodes: Any, model: Any, budget: Any, out: Path, on_hop: Any) -> tuple[Any, str]:
    """The hops by this process, or together with the others that torchrun started; all but worker 0 end with it."""
    if not _together():
        from rapgnn.scale.hops import hops_of

        return hops_of(graph, nodes, model, budget, out, on_hop)
    from rapgnn.scale.distributed.group import joined
    from rapgnn.scale.distributed.hops import distributed_hops

    with joined(budget.device) as workers:
        told = on_hop if workers.rank == 0 else lambda done, of: None
        found = distributed_hops(workers, graph, nodes, model, budget, out, told)
    end_others()
    return found


def worker_engine(store: Path | None) -> str | None:
    """The estimator's engine: ``"torch"`` where torchrun started this process, with a store that all workers see."""
    if _together() and store is None:
        raise InputError("the workers of torchrun need one folder for the hops: give --store.")
    return "torch" if _together() else None


def end_others() -> None:
    """What follows is done by one worker, the first."""
    import os

    if _together() and int(os.environ["RANK"]):
        raise typer.Exit


def _together() -> bool:
    import os

    return int(os.environ.get("WORLD_SIZE", 1)) > 1 and "RANK" in os.environ
