"""Hashes of 64 bits, as whole numbers that wrap around: they add up to the same in any order, on any device."""

import torch
from torch import Tensor

from rapgnn.sparse import Features, SparseMatrix, row_block, row_of_entry

# The constants of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), as signed numbers.
GOLDEN, _FIRST, _SECOND = -7046029254386353131, -4658895280553007687, -7723592293110705685
_ROWS = 1 << 15  # hashed at a time


def row_hash(x: Features) -> Tensor:
    """A hash of every row; rows with the same numbers have the same one. Only entries that are not 0 take time."""
    salt = mixed(GOLDEN * torch.arange(1, x.shape[1] + 1, device=x.device))
    empty = mixed(salt)  # of an entry that is 0
    found = []
    for start in range(0, x.shape[0], _ROWS):
        rows = torch.arange(start, min(start + _ROWS, x.shape[0]), device=x.device)
        row, column, value = _entries(row_block(x, rows))
        more = mixed(GOLDEN * value.to(torch.float32).view(torch.int32).long() + salt[column]) - empty[column]
        found.append(mixed(torch.full_like(rows, int(empty.sum())).index_add_(0, row, more)))
    return torch.cat(found) if found else salt.new_zeros(0)


def _entries(x: Features) -> tuple[Tensor, Tensor, Tensor]:
    """Row, column and value of the entries that are not 0."""
    if isinstance(x, SparseMatrix):
        row, column, value = row_of_entry(x.crow, x.col).long(), x.col.long(), x.values
        kept = value != 0
        return row[kept], column[kept], value[kept]
    row, column = x.nonzero(as_tuple=True)
    return row, column, x[row, column]


def mixed(z: Tensor) -> Tensor:
    """SplitMix64's last step."""
    z = (z ^ _shifted(z, 30)) * _FIRST
    z = (z ^ _shifted(z, 27)) * _SECOND
    return z ^ _shifted(z, 31)


def _shifted(z: Tensor, by: int) -> Tensor:
    """To the right, with zeros from the left."""
    return (z >> by) & ((1 << (64 - by)) - 1)
