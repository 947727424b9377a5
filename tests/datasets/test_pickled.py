"""Pickles from elsewhere: only numbers of checked sizes are taken from them, and nothing in them is called."""

import copyreg
import pickle
import pickletools
import struct
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from rapgnn.datasets import pickled
from rapgnn.datasets.pickled import read_pickled
from rapgnn.errors import InputError

RECONSTRUCT = b"cnumpy.core.multiarray\n_reconstruct\n"


def text(content: bytes) -> bytes:
    return b"T" + struct.pack("<i", len(content)) + content  # BINSTRING, as Python 2 writes arrays


def number(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def dtype(code: bytes = b"f4", order: bytes = b"<") -> bytes:
    made = b"cnumpy\ndtype\n(" + text(code) + number(0) + number(1) + b"tR"
    return made + b"(" + number(3) + text(order) + b"NNN" + number(-1) + number(-1) + number(0) + b"tb"


def array(shape: tuple[int, ...], content: bytes, kind: bytes | None = None) -> bytes:
    made = RECONSTRUCT + b"(cnumpy\nndarray\n(" + number(0) + b"t" + text(b"b") + b"tR"
    sizes = b"(" + b"".join(map(number, shape)) + b"t"
    return made + b"(" + number(1) + sizes + (kind or dtype()) + b"I00\n" + text(content) + b"tb"


def matrix(data: np.ndarray, indices: list[int], indptr: list[int], shape: tuple[int, int]) -> bytes:
    parts = {b"data": array((len(data),), data.astype("<f4").tobytes())}
    for name, values in ((b"indices", indices), (b"indptr", indptr)):
        parts[name] = array((len(values),), np.array(values, "<i4").tobytes(), dtype(b"i4"))
    parts[b"_shape"] = number(shape[0]) + number(shape[1]) + b"\x86"
    items = b"".join(text(name) + value for name, value in parts.items())
    return b"cscipy.sparse.csr\ncsr_matrix\n)\x81}(" + items + b"ub"


def read(tmp_path: Path, content: bytes):
    (tmp_path / "ind.x").write_bytes(b"\x80\x02" + content + b".")
    return read_pickled(tmp_path / "ind.x")


def test_what_the_published_files_hold(tmp_path):
    numbers = np.arange(6, dtype="<f4")
    np.testing.assert_array_equal(read(tmp_path, array((2, 3), numbers.tobytes())), numbers.reshape(2, 3))
    found = read(tmp_path, matrix(np.ones(2), [0, 2], [0, 1, 2], (2, 3)))
    assert isinstance(found, sp.csr_matrix)
    np.testing.assert_array_equal(found.toarray(), [[1, 0, 0], [0, 0, 1]])
    lists = b"ccollections\ndefaultdict\n(c__builtin__\nlist\ntR(" + number(0) + b"](" + number(1) + b"eu"
    assert read(tmp_path, lists) == {0: [1]}


@pytest.mark.parametrize(
    "content",
    [
        array((1 << 30,), b"\0" * 4),  # longer than its bytes
        array((2,), b"\0" * 4000),
        array((-1,), b""),
        array((1 << 30, 1 << 30, 1 << 30), b""),
        array((2,), b"\0" * 8, dtype(b"O8")),
        array((2,), b"\0" * 8, dtype(b"f4", b">")),
        array((2,), b"\0" * 8, b"N"),
        RECONSTRUCT + b"(cnumpy\nndarray\n(" + number(0) + b"t" + text(b"b") + b"tR",  # without contents
        b"cnumpy\nndarray\n(("
        + number(1 << 30)
        + b"t"
        + text(b"f4")
        + text(b"\0" * 8)
        + b"tR",  # called over raw bytes
        b"cnumpy\nndarray\n(" + number(1 << 30) + b"tR",
        matrix(np.ones(2), [0, 1 << 30], [0, 1, 2], (2, 3)),  # a column outside
        matrix(np.ones(2), [0, 1], [0, 1, 1 << 30], (2, 3)),
        matrix(np.ones(2), [0, -5], [0, 1, 2], (2, 3)),
        b"cos\nsystem\n(" + text(b"false") + b"tR",
        b"c__builtin__\neval\n(" + text(b"1") + b"tR",
        b"cnumpy\nload\n(" + text(b"x") + b"tR",
        b"cnumpy.core.multiarray\nscalar\n)R",
        b"c__builtin__\nlist\n)R",
        b"}(" + text(b"a") + text(b"b") + b"u",
        b"](" + number(1) + b"e",
        b"N",
        b"(" * 2000,
        b"r\xff\xff\xff\x7f" + b"N",
        b"",
    ],
    ids=range(24),
)
def test_anything_else_is_refused_in_one_sentence(tmp_path, content):
    with pytest.raises(InputError, match="cannot read") as error:
        read(tmp_path, content)
    assert "\n" not in str(error.value)


def test_a_pickle_cannot_change_what_reads_the_next_one(tmp_path):
    """BUILD sets attributes of whatever a file names: that must not be the module's own."""
    known = {name: dict(vars(kind)) for name, kind in vars(pickled).items() if isinstance(kind, type)}
    for named in (b"cscipy.sparse.csr\ncsr_matrix\n", RECONSTRUCT, b"cnumpy\ndtype\n", b"ccollections\ndefaultdict\n"):
        with pytest.raises(InputError):
            read(tmp_path, named + b"N}(" + text(b"matrix") + b"Nu\x86b")
        with pytest.raises(InputError):
            read(tmp_path, named + b"}(" + text(b"array") + b"Nub")
    assert {name: dict(vars(kind)) for name, kind in vars(pickled).items() if isinstance(kind, type)} == known


def test_random_damage_is_refused_or_harmless(tmp_path):
    rng = np.random.default_rng(0)
    good = [array((2, 3), np.arange(6, dtype="<f4").tobytes()), matrix(np.ones(2), [0, 2], [0, 1, 2], (2, 3))]
    for _ in range(600):
        content = bytearray(good[rng.integers(2)])
        for place in rng.integers(len(content), size=rng.integers(1, 4)):
            content[place] = rng.integers(256)
        try:
            found = read(tmp_path, bytes(content))
        except InputError:
            continue
        assert isinstance(found, np.ndarray | sp.csr_matrix | dict)


def test_pickles_of_this_python_hold_nothing_that_is_read(tmp_path):
    (tmp_path / "ind.x").write_bytes(pickle.dumps(copyreg._reconstructor))
    with pytest.raises(InputError, match="_reconstructor"):
        read_pickled(tmp_path / "ind.x")
    assert list(pickletools.genops(array((1,), b"\0" * 4) + b"."))  # the files made here are pickles
