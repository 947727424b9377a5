"""Arrays that are written to files piece by piece, never whole in memory, in numpy's format."""

import io
import os
from pathlib import Path
from typing import Any, Self

import numpy as np

from rapgnn.files import write_error
from rapgnn.scale.manifest import array_path


def _header(shape: tuple[int, ...], dtype: np.dtype, fortran: bool) -> bytes:
    buffer = io.BytesIO()
    told = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": fortran, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, told)
    return buffer.getvalue()


class Writer:
    """A file that numbers are put into by their place. ``with``: closed, and flushed to disk, at the end."""

    def __init__(self, folder: Path, name: str, shape: tuple[int, ...], dtype: Any, fortran: bool = False):
        self.path, self.shape, self.dtype = array_path(folder, name), shape, np.dtype(dtype)
        head = _header(shape, self.dtype, fortran)
        self._start = len(head)
        try:
            self.path.unlink(missing_ok=True)  # a reader that has the old file open keeps it
            self._file = self.path.open("wb", buffering=0)
            self._file.write(head)
            self._file.truncate(self._start + self.dtype.itemsize * int(np.prod(shape, dtype=np.int64)))
        except OSError as error:
            raise write_error(self.path, error) from error

    def put(self, place: int, values: np.ndarray) -> None:
        """Write numbers from the ``place``-th one on, in the file's order."""
        block = np.ascontiguousarray(values, dtype=self.dtype).data.cast("B")
        offset, done = self._start + self.dtype.itemsize * place, 0
        try:
            while done < len(block):
                self._file.seek(offset + done)
                done += self._file.write(block[done : done + (1 << 30)]) or 0
        except OSError as error:
            raise write_error(self.path, error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is None:
            os.fsync(self._file.fileno())
        self._file.close()


class Appender(Writer):
    """A one-dimensional array that is written from its first number to its last."""

    def __init__(self, folder: Path, name: str, length: int, dtype: Any):
        super().__init__(folder, name, (length,), dtype)
        self.done = 0

    def add(self, values: np.ndarray) -> None:
        """Write what comes next."""
        self.put(self.done, values)
        self.done += len(values)


class TableWriter(Writer):
    """``[n, c]`` in Fortran order, filled by blocks of rows: each column's part goes to its own place in the file."""

    def __init__(self, folder: Path, name: str, rows: int, columns: int, dtype: Any = np.float32):
        super().__init__(folder, name, (rows, columns), dtype, fortran=True)

    def put_block(self, row: int, column: int, block: np.ndarray) -> None:
        """Write the rows from ``row`` on, and the columns from ``column`` on."""
        turned = np.ascontiguousarray(block.T, dtype=self.dtype)
        if len(block) == self.shape[0]:
            self.put(column * self.shape[0], turned.reshape(-1))
            return
        for j, values in enumerate(turned):
            self.put((column + j) * self.shape[0] + row, values)
