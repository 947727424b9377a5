"""Where the hops of a graph on disk are computed: in this process, on Ray, or by the workers that torchrun started."""

from collections.abc import Callable
from functools import partial
from typing import Any

from rapgnn.errors import InputError, check_choice
from rapgnn.scale.fit import FittedOnDisk, fit_on_disk

ENGINES = ("ray", "torch")


def fit_by(engine: str | None, cluster: str | None, device: str) -> Callable[..., FittedOnDisk]:
    """``fit_on_disk``, or what does the same on several processes or machines.

    Args:
        engine: ``"ray"``; ``"torch"``, where torchrun started this process; None: this process, or Ray with a cluster.
        cluster: the address of a Ray cluster, or ``"auto"``.
    """
    if engine is None and cluster is None:
        return fit_on_disk
    check_choice("engine", engine or "ray", ENGINES)
    if engine == "torch":
        if cluster is not None:
            raise InputError("cluster is the address of a Ray cluster: leave it out with the engine torch.")
        return partial(_fit_together, device)
    from rapgnn.scale.ray_hops import fit_on_ray

    return partial(fit_on_ray, address=cluster or "auto")


def _fit_together(device: str, *given: Any, **how: Any) -> FittedOnDisk:
    from rapgnn.scale.distributed.fit import fit_together
    from rapgnn.scale.distributed.group import joined

    with joined(device) as workers:
        return fit_together(*given, **how, workers=workers)
