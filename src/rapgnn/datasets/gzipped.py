"""Files under gzip, of which no more is unpacked than is sensible."""

import gzip
import os
from typing import BinaryIO

MOST, RATIO = 1 << 28, 200  # bytes that may always be unpacked, and how many times the file's own size beyond that


class Unzipped(gzip.GzipFile):
    """What is in a gzip file; refused where a small file becomes a very large one."""

    def __init__(self, fileobj: BinaryIO):
        super().__init__(fileobj=fileobj, mode="rb")
        self.most, self.total = max(MOST, RATIO * os.fstat(fileobj.fileno()).st_size), 0

    def read(self, size: int | None = -1) -> bytes:
        return self._counted(super().read(size if size is not None and size >= 0 else self.most + 1))

    def read1(self, size: int = -1) -> bytes:
        return self._counted(super().read1(size))

    def _counted(self, block: bytes) -> bytes:
        self.total += len(block)
        if self.total > self.most:
            raise ValueError(f"it unpacks to more than {self.most:,} bytes")
        return block
