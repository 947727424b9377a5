"""What a measurement was made with."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version


def versions() -> dict[str, str]:
    """Package versions and the Python they ran on."""
    found = {"python": platform.python_version()}
    for name in ("rapgnn", "torch", "torch_geometric", "numpy", "scipy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "source tree" if name == "rapgnn" else "absent"
    return found


def hardware(device: str) -> str:
    """The processor a run used, in words."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.get_device_name(device)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()  # those it may use
    return f"{platform.machine()} CPU, {cores} cores"
