"""What Ray's processes do in the tests; they import it."""

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np

from rapgnn import Config
from rapgnn.errors import InputError
from rapgnn.scale.on_ray import hops_of_block
from rapgnn.scale.store import Columns, HopsOf

CONFIG = Config(num_layers=3, backbone="sage", embedding="identity", activation="identity")


def killed_once(of: HopsOf, folder: Path, model: Any, rows: np.ndarray, columns: Columns) -> list[np.ndarray]:
    """A block whose process is killed the first time."""
    mark = folder.parent / f"tried {columns[0]}"
    tried = mark.exists()
    mark.touch()
    if columns[0] == 2 and not tried:
        os.kill(os.getpid(), signal.SIGKILL)
    return hops_of_block(of, folder, model, rows, columns)


def fault(of: HopsOf, folder: Path, model: Any, rows: np.ndarray, columns: Columns) -> None:
    raise InputError(f"column {columns[0]} is at fault.")
