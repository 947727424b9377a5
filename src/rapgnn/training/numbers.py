"""A checkpoint's file of numbers: its header is read and judged before memory is taken for what it announces."""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from rapgnn.errors import InputError, shown
from rapgnn.files import open_regular

MOST_HEADER = 1 << 24  # bytes; a model has a few dozen tensors
_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}

Kinds = dict[str, tuple[tuple[int, ...], torch.dtype]]
"""{name: (shape, dtype)} of every tensor."""


class MissingError(InputError):
    """The file is not there, or not any more."""


@dataclass(frozen=True)
class Header:
    """What a file of numbers says of itself.

    Args:
        index: the digest of the index that it was saved with; None: older files keep none.
        tensors: name, shape and dtype of every tensor, as they stand in the file.
        size: bytes of the whole file.
    """

    index: str | None
    tensors: dict[str, tuple[tuple[int, ...], Any]]
    size: int


def read_header(path: Path) -> Header:
    """The header alone; nothing that it announces is allocated."""
    try:
        with open_regular(path) as file:
            return _header(path, file)
    except FileNotFoundError as error:
        raise MissingError(f"{path.parent} is damaged: {path.name} is missing.") from error
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}.") from error


def _header(path: Path, file: BinaryIO) -> Header:
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    try:
        if not 2 <= length <= min(MOST_HEADER, size - 8):
            raise ValueError
        told = json.loads(file.read(length))
        kept = told.pop("__metadata__", None) or {}
        tensors = {name: (tuple(entry["shape"]), entry["dtype"]) for name, entry in told.items()}
        ends = [entry["data_offsets"][1] for entry in told.values()]
        if 8 + length + max(ends, default=0) != size:
            raise ValueError
        index = kept.get("index")
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise InputError(f"{path} is truncated or altered: it does not begin with its tensors' sizes.") from error
    return Header(index if isinstance(index, str) else None, tensors, size)


def check_kinds(header: Header, expected: Kinds) -> None:
    """Refuse tensors that are not the model's: other names, shapes or types."""
    for name in expected:
        if name not in header.tensors:
            raise InputError(f"its numbers lack {name}")
    for name, (shape, code) in header.tensors.items():
        if name not in expected:
            raise InputError(f"its numbers hold {shown(name)}, which the model has not")
        wanted, dtype = expected[name]
        if shape != wanted:
            raise InputError(f"{name} has the shape {shown(list(shape))}, not {list(wanted)}")
        if _DTYPES.get(str(code)) != dtype:
            raise InputError(f"{name} holds {_DTYPES.get(str(code), shown(code))}, not {dtype}")


def read_numbers(path: Path, header: Header, digest: str, index: str) -> dict[str, Tensor]:
    """The tensors of a file whose header is as expected; refused where its SHA-256 is not ``digest``."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        with open_regular(path) as file:
            content = file.read(header.size + 1)
        if hashlib.sha256(content).hexdigest() != digest:
            raise InputError(f"{path} is truncated or altered: its SHA-256 is not the one noted in {index}.")
        state = load(content)
    except InputError:
        raise
    except FileNotFoundError as error:
        raise MissingError(f"{path.parent} is damaged: {path.name} is missing.") from error
    except (SafetensorError, OSError, ValueError, RuntimeError, KeyError, TypeError, OverflowError) as error:
        raise InputError(f"cannot read {path}: {str(error).rstrip('.')}.") from error
    for name, tensor in state.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise InputError(f"{path} is damaged: {name} holds NaN or infinite values.")
    return state
