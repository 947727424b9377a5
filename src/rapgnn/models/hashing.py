"""Hashes of 64 bits, as whole numbers that wrap around: they add up to the same in any order, on any device."""

import torch
from torch import Tensor

from rapgnn.sparse import Features, dense, row_block

# The constants of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), as signed numbers.
GOLDEN, _FIRST, _SECOND = -7046029254386353131, -4658895280553007687, -7723592293110705685
_ROWS = 1 << 15  # hashed at a time


def row_hash(x: Features) -> Tensor:
    """A hash of every row; rows with the same numbers have the same one."""
    salt = mixed(GOLDEN * torch.arange(1, x.shape[1] + 1, device=x.device))
    found = []
    for start in range(0, x.shape[0], _ROWS):
        rows = torch.arange(start, min(start + _ROWS, x.shape[0]), device=x.device)
        bits = (dense(row_block(x, rows)).to(torch.float32) + 0.0).view(torch.int32).long()  # -0 is 0
        found.append(mixed(mixed(GOLDEN * bits + salt).sum(dim=1)))
    return torch.cat(found) if found else salt.new_zeros(0)


def mixed(z: Tensor) -> Tensor:
    """SplitMix64's last step."""
    z = (z ^ _shifted(z, 30)) * _FIRST
    z = (z ^ _shifted(z, 27)) * _SECOND
    return z ^ _shifted(z, 31)


def _shifted(z: Tensor, by: int) -> Tensor:
    """To the right, with zeros from the left."""
    return (z >> by) & ((1 << (64 - by)) - 1)
