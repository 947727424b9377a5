"""The hops that a network needs of a graph on disk, in a hop store: found there, or computed into it."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from rapgnn.errors import InputError
from rapgnn.graph.backbones import BACKBONES
from rapgnn.graph.operator import GraphOperator
from rapgnn.network.config import Config
from rapgnn.network.embedding import EMBEDDINGS
from rapgnn.network.propagation import stored_hops
from rapgnn.network.rapgnn import RAPGNN
from rapgnn.scale.blocks import Budget, FirstHop, OnHop, block_width, fill_store, keeps_graph
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.store import MANIFEST, HopsOf, HopStore
from rapgnn.scale.streamed import StreamedMatrix
from rapgnn.sparse import SparseMatrix


def check_config(config: Config) -> None:
    """Refuse settings that cannot be streamed."""
    kind = EMBEDDINGS[config.embedding]
    faults = {
        f"the backbone {config.backbone}": BACKBONES[config.backbone].edges,
        f"the embedding {config.embedding}": kind.one_layer or kind.redrawn or kind.trained == "with",
        "random node features": config.random_features > 0,
        "full weight matrices": config.structure == "full",
        "layer dropout": config.layer_dropout > 0,
        "the engine stepwise": config.engine == "stepwise",
        f"the inference {config.inference}": config.inference not in ("auto", "expected"),
        "hops in bfloat16": config.hop_precision != "float32",
    }
    fault = next((name for name, wrong in faults.items() if wrong), None)
    if fault is not None:
        raise InputError(f"a graph on disk cannot be used with {fault}: change that setting, or load the graph.")


def hops_of(
    graph: DiskGraph,
    nodes: np.ndarray,
    model: RAPGNN,
    budget: Budget,
    folder: Path,
    on_hop: OnHop = lambda done, of: None,
) -> tuple[HopStore, str]:
    """A store that has the hops of these nodes, filled where it has not yet; and why the shortcut is exact.

    The operator's scale is taken from the graph where the model has none.

    Args:
        nodes: ascending.
        folder: of the store; one that is there must be of the same graph, embedding and layers, and have these nodes.
    """
    first = FirstHop(graph, model.to(budget.device).embedding, model.config.normalize_features)
    width = block_width(graph, first.channels, budget, self_loops=model.config.self_loops)
    matrix = streamed_matrix(graph, model.config, budget)
    if BACKBONES[model.config.backbone].includes_self and float(model.operator_scale) == 1.0:
        model.operator_scale.fill_(matrix.growth_rate())
    reason = exact(model, matrix, first)
    of = description(graph, model, first)
    store = found_store(folder, of, nodes) or HopStore.create(folder, of, nodes)
    fill_store(store, matrix, first, width, on_hop)
    return store, reason


def description(graph: DiskGraph, model: RAPGNN, first: FirstHop) -> HopsOf:
    """What the hops of this network on this graph are told from others by."""
    config, spec = model.config, model.spec
    return HopsOf(
        graph.fingerprint,
        config.backbone,
        config.self_loops,
        config.eps,
        tuple(stored_hops(spec)),
        spec.operator_scale,
        first.fingerprint(),
        first.channels,
    )


def streamed_matrix(graph: DiskGraph, config: Config, budget: Budget) -> StreamedMatrix:
    """S as the settings want it."""
    loops = {"self_loops": config.self_loops, "eps": config.eps}
    return StreamedMatrix(graph, config.backbone, **loops, device=budget.device, keep=keeps_graph(graph, budget))


def exact(model: RAPGNN, matrix: StreamedMatrix, first: FirstHop) -> str:
    """Why the shortcut is exact here; refused where it is not. One number stands for the signs of many."""
    sign = GraphOperator(one_by_one(1.0 if matrix.nonnegative else -1.0), eps=model.config.eps)
    linear = model.spec.activation == "identity"
    h = torch.tensor([[0.0 if linear or first.nonnegative else -1.0]])
    obstacle = model.spec.obstacle(sign, h)
    if obstacle is not None:
        raise InputError(f"the hops of a graph on disk would not be exact: {obstacle}; set activation to identity.")
    return "the layers are linear" if linear else "weights, graph and embedded features are non-negative"


def one_by_one(value: float, device: torch.device | str = "cpu") -> SparseMatrix:
    """A matrix with one entry."""
    arrays = torch.tensor([0, 1]), torch.tensor([0]), torch.tensor([value])
    return SparseMatrix.from_csr(*arrays, (1, 1)).to(device)


def found_store(folder: Path, of: HopsOf, nodes: np.ndarray) -> HopStore | None:
    """A filled store with all of these hops, and perhaps those of other nodes and deeper ones; None: to be filled."""
    if not (folder / MANIFEST).is_file():
        return None
    store = HopStore.open(folder, complete=False)
    if store.missing() or not store.of.covers(of):
        return None  # the next step goes on with it, or says what it holds
    store.places(nodes)
    return store


@contextlib.contextmanager
def hop_folder(graph: DiskGraph, named: Path | None) -> Iterator[Path]:
    """The folder that was named, or one beside the graph that is removed in the end."""
    if named is not None:
        yield Path(named)
        return
    try:
        folder = Path(tempfile.mkdtemp(prefix=".rapgnn-hops-", dir=graph.folder.resolve().parent))
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="rapgnn-hops-"))
    try:
        yield folder / "hops"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def untrained(graph: DiskGraph, config: Config, seed: int = 0, all_layers: bool = True) -> RAPGNN:
    """A network for this graph before any training, for hops that need none.

    Args:
        all_layers: of which every layer's hops are wanted, so that networks with fewer layers can use them too.
    """
    check_config(config)
    if EMBEDDINGS[config.embedding].trained == "before":
        raise InputError(
            f"the hops of the embedding {config.embedding} need its training: use identity or fixed-random, "
            "or let rapgnn fit compute them."
        )
    config = config.update(jumping="cat") if all_layers else config
    return RAPGNN(graph.num_features, out_channels=graph.num_outputs, seed=seed, config=replace(config, head="ridge"))
