"""The hop store: what goes in comes out, damage is refused, a stopped run goes on; blocks under a memory limit."""

import json
import os
import re
import shutil
import signal
import threading

import numpy as np
import pytest
import torch

from disk_cases import blocks, fill, full_disk, in_process
from rapgnn import InputError, make_graph
from rapgnn.errors import OutputError
from rapgnn.memory import read_size, show_size
from rapgnn.scale import hops as walks
from rapgnn.scale import store as stores
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.hops import Budget, block_width
from rapgnn.scale.store import MANIFEST, HopsOf, HopStore

OF = HopsOf("0123", "gcn", False, 0.0, (0, 2), 1.0, "4567", 5)
ROWS = np.array([1, 4, 5, 9])


def filled(folder, hops=None):
    hops = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(0)) if hops is None else hops
    store = HopStore.create(folder, OF, ROWS)
    for columns in ((0, 2), (2, 5)):
        for k, hop in zip(OF.hops, hops, strict=True):
            store.write(columns, k, hop[:, slice(*columns)].split(3))
        store.finish(columns)
    return hops


def test_what_is_written_is_read(tmp_path):
    hops = filled(tmp_path / "s")
    store = HopStore.open(tmp_path / "s")
    assert store.of == OF
    assert store.rows.tolist() == ROWS.tolist()
    assert torch.equal(store.read(slice(None)), hops.transpose(0, 1))
    assert torch.equal(store.read(np.array([3, 0])), hops.transpose(0, 1)[[3, 0]])
    assert torch.equal(store.read(slice(1, 3), [2])[:, 0], hops[1, 1:3])
    assert store.places(np.array([9, 1])).tolist() == [3, 0]
    assert store.bytes == hops.numel() * 4


def test_no_rows_are_a_store_too(tmp_path):
    store = HopStore.create(tmp_path / "s", OF, ROWS[:0])
    for hop in OF.hops:
        store.write((0, 5), hop, iter([]))
    store.finish((0, 5))
    assert HopStore.open(tmp_path / "s").read(slice(None)).shape == (0, 2, 5)


@pytest.mark.parametrize("place", ["first", "last"])
@pytest.mark.parametrize("damage", ["cut", "flip", "remove"])
def test_a_damaged_file_is_refused_by_name(tmp_path, damage, place):
    filled(tmp_path)
    names = sorted(path.name for path in tmp_path.glob("*.npy"))
    path = tmp_path / names[0 if place == "first" else -1]
    whole = path.read_bytes()
    if damage == "remove":
        path.unlink()
    else:
        path.write_bytes(whole[:-1] if damage == "cut" else whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:])
    with pytest.raises(InputError, match=path.name):
        HopStore.open(tmp_path)
    if damage == "flip":
        HopStore.open(tmp_path, verify=False)  # sizes alone do not tell


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": "rapgnn-hops-1"}'])
def test_a_damaged_manifest_is_refused_by_name(tmp_path, text):
    filled(tmp_path)
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(InputError, match=MANIFEST):
        HopStore.open(tmp_path)


def test_other_hops_are_not_mixed_with_these(tmp_path):
    filled(tmp_path)
    with pytest.raises(InputError, match="holds other hops"):
        HopStore.create(tmp_path, HopsOf(**{**vars(OF), "graph": "another"}), ROWS)
    assert HopStore.create(tmp_path, OF, ROWS[:2]).rows.tolist() == ROWS.tolist()  # has them, and is filled
    with pytest.raises(InputError, match="does not have all rows"):
        HopStore.create(tmp_path, OF, np.array([1, 2]))
    unfinished = HopStore.create(tmp_path / "other", OF, ROWS)
    with pytest.raises(InputError, match="holds other hops"):
        HopStore.create(unfinished.folder, OF, ROWS[:2])


def test_a_folder_of_other_files_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(InputError, match="it holds other files"):
        HopStore.create(tmp_path, OF, ROWS)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_an_unfinished_store_says_where_it_ends(tmp_path):
    store = HopStore.create(tmp_path, OF, ROWS)
    for hop in OF.hops:
        store.write((0, 2), hop, [torch.zeros(4, 2)])
    store.finish((0, 2))
    assert store.missing() == [(2, 5)]
    assert store.missing(2) == [(2, 4), (4, 5)]
    with pytest.raises(InputError, match="unfinished from column 2 on"):
        HopStore.open(tmp_path)


def test_of_two_runs_that_begin_with_one_folder_the_second_is_refused(tmp_path, monkeypatch):
    write, outcomes = stores.save_parts, []

    def begin(rows: np.ndarray) -> None:
        try:
            outcomes.append(HopStore.create(tmp_path / "s", OF, rows).rows.tolist())
        except InputError as error:
            outcomes.append(str(error))

    second = threading.Thread(target=begin, args=(ROWS[:2],))

    def slowly(*given) -> None:
        if not second.ident:
            second.start()
            second.join(0.2)
        write(*given)

    monkeypatch.setattr(stores, "save_parts", slowly)
    begin(ROWS)
    second.join()
    assert outcomes[0] == ROWS.tolist()
    assert "holds other hops" in outcomes[1]
    assert HopStore.open(tmp_path / "s", complete=False).rows.tolist() == ROWS.tolist()


def test_a_block_whose_files_another_run_has_removed_does_not_count(tmp_path):
    one, other = (HopStore.create(tmp_path / "s", OF, ROWS) for _ in range(2))
    for hop in OF.hops:
        one.write((0, 5), hop, [torch.zeros(4, 5)])
    other.drop((0, 5))  # it was stopped in the same block
    one.finish((0, 5))
    assert one.missing() == HopStore.open(tmp_path / "s", complete=False).missing() == [(0, 5)]


def test_hops_cover_fewer_layers_of_the_same_graph():
    deep = HopsOf(**{**vars(OF), "hops": (0, 1, 2, 3)})
    assert deep.covers(OF)
    assert not OF.covers(deep)
    assert not deep.covers(HopsOf(**{**vars(OF), "self_loops": True}))


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A graph, and a store whose run was killed, as nothing can catch it, in the middle of the third of four blocks."""
    folder = tmp_path_factory.mktemp("killed")
    DiskGraph.write(folder / "g", blocks())
    done = in_process("fill", folder=str(folder / "g"), out=str(folder / "s"), width=3, dies_at=10)
    assert done.returncode == -signal.SIGKILL, done.stderr
    half = folder / "s" / ".rapgnn-0123456789abcdef.npy"
    half.write_bytes(b"half of a file")
    os.utime(half, (0, 0))
    return folder


def test_a_killed_run_goes_on_after_the_last_whole_block(killed, tmp_path):
    shutil.copytree(killed / "s", tmp_path / "s")
    half = HopStore.open(tmp_path / "s", complete=False)
    assert sorted(half.blocks) == [(0, 3), (3, 6)]
    done = [tmp_path / "s" / name for files in half.blocks.values() for name in files]
    when = [path.stat().st_mtime_ns for path in done]
    assert len(list((tmp_path / "s").glob("columns-*"))) > len(done)  # of the third block some files are there
    fill(killed / "g", tmp_path / "s", 3)
    assert [path.stat().st_mtime_ns for path in done] == when
    fill(killed / "g", tmp_path / "w", 3)
    files = sorted(path.name for path in (tmp_path / "s").iterdir())
    assert files == sorted(path.name for path in (tmp_path / "w").iterdir())
    for name in files:
        assert (tmp_path / "s" / name).read_bytes() == (tmp_path / "w" / name).read_bytes()


def test_a_run_that_goes_on_may_have_another_width(killed, tmp_path):
    shutil.copytree(killed / "s", tmp_path / "s")
    fill(killed / "g", tmp_path / "s", 4)
    fill(killed / "g", tmp_path / "w", 12)
    found, wanted = (HopStore.open(tmp_path / name) for name in ("s", "w"))
    assert sorted(found.blocks) == [(0, 3), (3, 6), (6, 10), (10, 12)]
    assert len(list((tmp_path / "s").glob("columns-*"))) == 16  # nothing of the block that was cut off
    assert torch.equal(found.read(slice(None)), wanted.read(slice(None)))


def test_a_full_disk_is_one_sentence_and_nothing_half_written_stays(tmp_path):
    DiskGraph.write(tmp_path / "g", blocks())
    with full_disk(2200), pytest.raises(OutputError, match=r"cannot write .*columns-000000.*: File too large\.$"):
        fill(tmp_path / "g", tmp_path / "s", 3)
    assert sorted(path.name for path in (tmp_path / "s").iterdir()) == [MANIFEST, "rows.npy"]
    assert json.loads((tmp_path / "s" / MANIFEST).read_text())["blocks"] == []
    fill(tmp_path / "g", tmp_path / "s", 3)
    assert not HopStore.open(tmp_path / "s").missing()


NODES, WIDTH = 200_000, 24


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> DiskGraph:
    rng = np.random.default_rng(0)
    x = rng.random((NODES, WIDTH), dtype=np.float32)
    rows = np.split(rng.permutation(NODES)[:600], [400, 500])
    edges = rng.integers(0, NODES, (2, 800_000))
    graph = make_graph(x, edges, np.arange(NODES) % 3, *rows, sparse=False)
    return DiskGraph.write(tmp_path_factory.mktemp("large") / "g", graph)


@pytest.mark.parametrize(
    ("given", "size"), [("8GiB", 8 << 30), ("500MB", 500_000_000), (" 1.5 gib ", 3 << 29), (12345, 12345), ("7", 7)]
)
def test_sizes_are_read(given, size):
    assert read_size(given) == size


@pytest.mark.parametrize("given", ["", "much", "64k", "-1GiB", "0", 0, -5, True, None, 1.5, "1e9"])
def test_what_is_no_size_is_refused(given):
    with pytest.raises(InputError, match="must be a size"):
        read_size(given)


@pytest.mark.parametrize("size", [1, 1023, (1 << 20) + 1, (9 << 30) + 5])
def test_a_size_that_is_shown_is_enough(size):
    assert size <= read_size(show_size(size)) <= 1.11 * size + 1024


def least(graph: DiskGraph) -> int:
    """What the refusal of a limit of 10 MiB names."""
    with pytest.raises(InputError) as refused:
        block_width(graph, WIDTH, Budget(10 << 20))
    return read_size(re.search(r"(\w+) is the least that works", str(refused.value))[1])


@pytest.fixture
def steady(monkeypatch):
    """What the process holds, the same at every look: other tests' memory comes and goes."""
    monkeypatch.setattr(walks, "anonymous_bytes", lambda: 300 << 20)


def test_blocks_grow_with_the_limit(large, steady):
    limits = [least(large) + (size << 20) for size in (-14, 0, 100)]
    widths = [block_width(large, WIDTH, Budget(limit)) for limit in limits]
    assert widths[0] < widths[1] < widths[2] == WIDTH
    assert block_width(large, WIDTH, Budget()) == WIDTH


def test_blocks_have_about_the_same_width(large, monkeypatch):
    monkeypatch.setattr(Budget, "room", lambda *_: 17 * 8 * NODES)
    assert block_width(large, WIDTH, Budget(1)) == 12  # two of twelve, not one of seventeen and one of seven


def test_too_small_a_limit_names_the_least_that_works(large, steady):
    enough = least(large)
    assert block_width(large, WIDTH, Budget(enough)) >= 1
    with pytest.raises(InputError, match="too small"):
        block_width(large, WIDTH, Budget(enough - (32 << 20)))


def test_the_limit_is_kept(large):
    """Fit and prediction with error bars in a process of its own, by narrow walks: its peak stays below the limit."""
    done = in_process("fit_under_limit", folder=str(large.folder), columns=5)
    assert done.returncode == 0, done.stderr
    limit, peak, walks = map(int, done.stdout.split())
    assert peak <= limit
    assert walks >= 2
