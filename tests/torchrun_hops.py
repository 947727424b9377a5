"""What torchrun starts in the tests: ``torchrun tests/torchrun_hops.py GRAPH STORE LAYERS LOG``."""

import os
import sys
from pathlib import Path

import torch

from distributed_cases import deep_hops

if __name__ == "__main__":
    torch.set_num_threads(1)
    folder, out, layers, log = sys.argv[1:]
    hops = deep_hops(Path(folder), Path(out), int(layers))
    with Path(log).open("a") as file:
        file.write(f"{os.environ['TORCHELASTIC_RESTART_COUNT']} {hops[0]} {hops[-1]}\n")
