"""Graphs on disk with a GPU: the same numbers, blocks by free memory, and narrower ones where it does not suffice."""

import contextlib

import numpy as np
import pytest
import torch

from disk_cases import BACKBONES, ROOM, blocks, fit_both, hostile, largest_difference
from operators import relative_error
from rapgnn import Config, Graph, InputError
from rapgnn.device import free_memory
from rapgnn.scale import matrix as streamed
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.fit import predict
from rapgnn.scale.hops import Budget, DiskHops, block_width, keeps_graph, untrained
from rapgnn.scale.matrix import StreamedMatrix
from rapgnn.scale.store import HopStore

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
GPU = Budget(16 << 30, "cuda")
RIDGE = {"head": "ridge", "embedding": "identity", "activation": "identity", "num_layers": 3, "jumping": "cat"}


@pytest.mark.parametrize("name", hostile())
@pytest.mark.parametrize(("backbone", "loops"), BACKBONES)
@pytest.mark.parametrize("keep", [False, True])
def test_products_are_those_of_the_cpu(tmp_path, monkeypatch, name, backbone, loops, keep):
    monkeypatch.setitem(streamed.ENTRIES, "cuda", 32)
    graph = hostile()[name]
    disk = DiskGraph.write(tmp_path, graph)
    matrix = StreamedMatrix(disk, backbone, self_loops=loops, device="cuda", keep=keep)
    x = torch.randn(graph.num_nodes, 9, generator=torch.Generator().manual_seed(0))
    wanted = graph.operator(backbone, loops).matrix @ x
    for _ in range(2):  # the second time from what was kept
        found = matrix.product(x.cuda(), torch.empty_like(x).cuda())
        assert relative_error(found.cpu(), wanted) < 1e-5
    rows = np.arange(0, graph.num_nodes, 2)
    assert relative_error(matrix.product_of(x.cuda(), rows).cpu(), wanted[rows]) < 1e-5
    assert matrix.growth_rate() == pytest.approx(graph.operator(backbone, loops).growth_rate, rel=0.02)


@pytest.mark.parametrize(
    "settings",
    [
        RIDGE | {"ridge": None},
        RIDGE | {"backbone": "sage"},
        RIDGE | {"backbone": "gin", "jumping": "last"},
        {"hidden_channels": 16, "num_layers": 2, "epochs": 10, "pretrain_epochs": 10, "dropout": 0.0, "head": "mlp"},
    ],
)
def test_models_and_predictions_are_those_of_the_cpu(tmp_path, settings):
    graph, config = blocks(), Config(**({"pretrain_dropout": 0.0} | settings))
    disk, wanted = fit_both(graph, tmp_path / "g", config)
    _, found = fit_both(graph, tmp_path / "g", config, budget=GPU)
    close = 1e-4 if config.head == "ridge" else 1e-2  # training adds rounding errors up
    assert largest_difference(found.model, wanted.model) < close
    for error_bars in (False, True):
        parts = [
            [found for _, found in predict(wanted.model, disk, graph.objective, budget, error_bars=error_bars)]
            for budget in (GPU, ROOM)
        ]
        one, other = (torch.cat([part.probabilities for part in side]) for side in parts)
        assert not one.is_cuda
        assert relative_error(one, other) < 1e-4


def test_an_allowance_makes_blocks_narrow_and_streams_the_graph(tmp_path):
    disk = DiskGraph.write(tmp_path / "g", blocks())
    small = Budget(16 << 30, "cuda", 3 * streamed.PRODUCT_BYTES["cuda"] + disk.num_nodes * (12 + 8 * 5))
    assert block_width(disk, 12, small) == 4
    assert block_width(disk, 12, GPU) == 12
    assert keeps_graph(disk, GPU)
    assert not keeps_graph(disk, Budget(16 << 30, "cuda", 1000))
    model = untrained(disk, Config(**RIDGE))
    rows = np.arange(disk.num_nodes)
    narrow = DiskHops(disk, model, small).store(tmp_path / "narrow", rows)
    wide = DiskHops(disk, untrained(disk, Config(**RIDGE)), ROOM).store(tmp_path / "wide", rows)
    assert (len(narrow.blocks), len(wide.blocks)) == (3, 1)
    assert relative_error(narrow.read(slice(None)), wide.read(slice(None))) < 1e-5


def large(folder, nodes: int, width: int) -> DiskGraph:
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.random((nodes, width), dtype=np.float32))
    edges = torch.from_numpy(rng.integers(0, nodes, (2, 400_000)))
    given = {"x": x, "edge_index": edges, "y": torch.arange(nodes) % 3}
    return DiskGraph.write(folder, Graph(**{**vars(blocks()), **given}))


@contextlib.contextmanager
def room(size: int):
    """The process may take so many bytes of the GPU more than it has."""
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + size) / total)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def test_memory_that_does_not_suffice_is_answered_by_narrower_blocks(tmp_path):
    disk = large(tmp_path / "g", 400_000, 64)
    config = Config(**RIDGE | {"num_layers": 2})
    rows = np.arange(0, disk.num_nodes, 1000)
    hops = DiskHops(disk, untrained(disk, config), Budget(16 << 30, "cuda", 1000), width=64)  # the graph is streamed
    assert hops.matrix.device.type == "cuda"
    with room(150 << 20):  # both buffers of all columns are 205 MB
        store = hops.store(tmp_path / "s", rows)
    assert len(store.blocks) >= 2
    wanted = DiskHops(disk, untrained(disk, config), ROOM).store(tmp_path / "w", rows)
    assert relative_error(store.read(slice(None)), wanted.read(slice(None))) < 1e-5


def test_not_one_column_is_one_sentence(tmp_path):
    disk = large(tmp_path / "g", 12_000_000, 1)  # a column is larger than what a segment may have left
    hops = DiskHops(disk, untrained(disk, Config(**RIDGE)), Budget(16 << 30, "cuda", 1000), width=1)
    assert hops.matrix.device.type == "cuda"
    with room(0), pytest.raises(InputError, match="too little free memory for one column"):
        hops.store(tmp_path / "s", np.arange(10))
    assert HopStore.open(tmp_path / "s", complete=False).missing() == [(0, 1)]


def test_what_torch_allows_the_process_is_the_room(tmp_path):
    disk = large(tmp_path / "g", 400_000, 64)
    config = Config(**RIDGE | {"num_layers": 2})
    total = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + (150 << 20)) / total)
    try:
        assert free_memory() <= 150 << 20
        found = DiskHops(disk, untrained(disk, config), GPU).store(tmp_path / "s", np.arange(0, disk.num_nodes, 1000))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert free_memory() > 150 << 20
    assert len(found.blocks) >= 2
    wanted = DiskHops(disk, untrained(disk, config), ROOM).store(tmp_path / "w", found.rows)
    assert relative_error(found.read(slice(None)), wanted.read(slice(None))) < 1e-5
