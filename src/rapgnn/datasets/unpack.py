"""Bytes from elsewhere, never more than asked for: streams with a limit, and the members of zip files."""

import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

BLOCK = 1 << 20
_DAMAGE = (
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
    OverflowError,
    KeyError,
)


class UnavailableError(Exception):
    """This source did not give the files; the next one is tried."""


def blocks(stream: Any, most: int, what: str) -> Iterator[bytes]:
    """The stream block by block; refused where it is longer than ``most`` bytes."""
    total = 0
    while block := stream.read(BLOCK):
        total += len(block)
        if total > most:
            raise UnavailableError(f"refused {what}: it is larger than {most:,} bytes")
        yield block


def members(
    path: Path, names: Iterable[str], most: int, find: Callable[[str, str], bool]
) -> Iterator[tuple[str, bytes]]:
    """(name, content) of files in an archive.

    Args:
        most: bytes of one file, unpacked.
        find: whether a member's path in the archive is that of a name.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            for name in names:
                member = next((m for m in archive.infolist() if find(m.filename, name)), None)
                if member is None:
                    raise UnavailableError(f"its archive holds no {name}")
                if member.flag_bits & 1:
                    raise UnavailableError(f"refused its archive: {name} is encrypted")
                with archive.open(member) as stream:
                    content = b"".join(blocks(stream, most, name))
                yield name, content
    except zipfile.BadZipFile as error:
        raise UnavailableError("refused its archive: it is truncated or no zip file") from error
    except _DAMAGE as error:
        raise UnavailableError(f"refused its archive: it is damaged ({error})") from error
