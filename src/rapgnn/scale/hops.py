"""S^k h⁰ of a graph on disk, block of columns after block, for the rows that are wanted, wherever that is computed.

``DiskHops`` computes them in this process, or shares the blocks with others that torchrun started; on Ray it is a kind
of it (see ``homes``). All of them fill the same hop store, and what follows does not know who filled it.
"""

import contextlib
import gc
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rapgnn.device import free_memory
from rapgnn.errors import InputError
from rapgnn.graph.backbones import BACKBONES
from rapgnn.graph.operator import GraphOperator
from rapgnn.memory import anonymous_bytes, blocks, even_width, give_back, show_size
from rapgnn.network.config import Config
from rapgnn.network.encode import EMBEDDINGS, Embedding, Inputs
from rapgnn.network.propagation import stored_hops
from rapgnn.network.rapgnn import RAPGNN
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.matrix import PRODUCT_BYTES, StreamedMatrix, held_bytes
from rapgnn.scale.store import Columns, HopsOf, HopStore
from rapgnn.scale.workers import ALONE, Workers
from rapgnn.sparse import SparseMatrix

ROW_BYTES = 16 << 20  # of the features of the rows that are read together
PART_ROWS = 1 << 16  # that are handed to the store at a time
SLACK = 64 << 20  # for what the interpreter and the libraries take on the way
DEVICE_SHARE = 0.85  # of the free memory of a GPU

Hop = tuple[int, Iterator[Tensor]]  # k, and the rows of S^k h⁰ that are wanted, part by part
OnHop = Callable[[int, int], None]  # told how many hops of how many are done, over all blocks of columns


def silent(done: int, of: int) -> None:
    """Tells nobody how many hops are done."""


class FirstHop:
    """h⁰ ``[n, d]``, never whole.

    Args:
        graph: on disk.
        embedding: f_φ, frozen, of features alone; None: the features themselves.
        normalize: divide each node's features by the sum of their magnitudes first.
    """

    def __init__(self, graph: DiskGraph, embedding: Embedding | None = None, normalize: bool = False):
        self.graph, self.normalize = graph, normalize
        self.embedding = None if embedding is None or embedding.mlp is None else embedding
        self.channels = graph.num_features if self.embedding is None else self.embedding.out_channels
        self._sizes: Tensor | None = None

    def row_blocks(self, width: int | None = None) -> Iterator[slice]:
        """The rows, as many at a time as may be read together; ``width`` columns of them, or all."""
        widest = max(self.graph.num_features, self.channels) if width is None else width
        return blocks(self.graph.num_nodes, ROW_BYTES // (4 * max(1, widest)))

    @torch.no_grad()
    def rows(self, rows: slice, device: torch.device | str = "cpu") -> Tensor:
        """h⁰ of these rows, ``[rows, d]``."""
        x = self._normalized(self._read(rows)).to(device)
        if self.embedding is None:
            return x
        h = self.embedding(Inputs(x))
        assert isinstance(h, Tensor)
        return h

    @torch.no_grad()
    def columns(self, columns: Columns, device: torch.device | str = "cpu") -> Tensor:
        """h⁰ of some columns, ``[n, columns]``."""
        width = columns[1] - columns[0]
        out = torch.empty(self.graph.num_nodes, width, dtype=torch.float32, device=device)
        if self.embedding is None and self.normalize and self._sizes is None:
            sizes = (_sizes_of(self._read(rows)) for rows in self.row_blocks())
            self._sizes = torch.cat([torch.zeros(0, 1), *sizes])
        for rows in self.row_blocks(width if self.embedding is None else None):
            if self.embedding is not None:
                out[rows] = self.rows(rows, device)[:, slice(*columns)]
                continue
            block = self._read(rows, slice(*columns))
            out[rows] = block if self._sizes is None else block.div_(self._sizes[rows])
        return out

    def pick(self, nodes: np.ndarray) -> Tensor:
        """The features of some nodes, as the settings want them, before they are embedded: ``[nodes, c]``."""
        out = np.empty((len(nodes), self.graph.num_features), dtype=np.float32)
        for column in range(out.shape[1]):  # one piece of the file after another
            out[:, column] = self.graph.features[nodes, column]
        return self._normalized(torch.from_numpy(out))

    @property
    def nonnegative(self) -> bool:
        """Whether no entry of these rows is below zero."""
        if self.embedding is not None:
            return not self.embedding.unchanged_output
        return all(not bool((self.graph.features[rows] < 0).any()) for rows in self.row_blocks())

    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that tell this embedding of the features from others."""
        digest = hashlib.sha256(f"{self.channels} {self.normalize}".encode())
        if self.embedding is not None:
            digest.update(self.embedding.output.__name__.encode())
            for name, tensor in self.embedding.state_dict().items():
                digest.update(name.encode() + tensor.detach().cpu().numpy().tobytes())
        return digest.hexdigest()[:16]

    def _read(self, rows: slice, columns: slice = slice(None)) -> Tensor:
        return torch.from_numpy(np.array(self.graph.features[rows, columns], order="C"))

    def _normalized(self, x: Tensor) -> Tensor:
        return x / _sizes_of(x) if self.normalize else x


def _sizes_of(x: Tensor) -> Tensor:
    return x.abs().sum(1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny)


@dataclass(frozen=True)
class Budget:
    """How much memory there is.

    Args:
        limit: bytes of this process that no file backs, all in all; None: as much as it takes.
        device: where products run.
        device_limit: bytes on the GPU; None: most of what is free there.
    """

    limit: int | None = None
    device: str = "cpu"
    device_limit: int | None = None

    def room(self, fixed: int, what: str, unit: int) -> int:
        """Bytes that are left beside what the process holds now and ``fixed``; refused where not even ``unit`` is left.

        Args:
            what: is to be done, for the sentence that refuses it.
        """
        if self.limit is None:
            return 1 << 62
        give_back()
        left = self.limit - (anonymous_bytes() or 0) - SLACK - fixed
        if left < unit:
            raise InputError(
                f"the memory limit of {show_size(self.limit)} is too small {what}: "
                f"{show_size(self.limit - left + unit + SLACK // 4)} is the least that works."
            )
        return left

    def device_room(self) -> int:
        """Bytes on the GPU that a block and the graph may take."""
        if self.device_limit is not None:
            return self.device_limit
        torch.cuda.empty_cache()
        return int(DEVICE_SHARE * free_memory(self.device))


def block_width(graph: DiskGraph, columns: int, budget: Budget, *, self_loops: bool = False, workers: int = 1) -> int:
    """How many of the columns a block has, all blocks alike: two buffers of n rows are alive for it.

    Args:
        workers: that each take some of the blocks.
    """
    per_column = 8 * max(1, graph.num_nodes)
    if torch.device(budget.device).type == "cpu":
        fixed = held_bytes(graph, self_loops) + 3 * ROW_BYTES
        room = budget.room(fixed, f"for one column of {graph.num_nodes:,} nodes", per_column)
    else:
        budget.room(4 * ROW_BYTES, "to stream the graph to the GPU", 1)
        room = budget.device_room() - 12 * graph.num_nodes - 3 * PRODUCT_BYTES["cuda"]
        room -= graph_bytes(graph) if keeps_graph(graph, budget) else 0
    return even_width(columns, min(room // per_column, -(-columns // workers)))


def graph_bytes(graph: DiskGraph) -> int:
    """What the entries of S take on a GPU, with the pieces that its kernel cuts rows into."""
    return graph.num_edges * (8 if graph.weighted else 4) + 32 * graph.num_nodes + graph.num_edges // 2


def keeps_graph(graph: DiskGraph, budget: Budget) -> bool:
    """Whether the entries of S stay on the GPU instead of being streamed for every hop."""
    if torch.device(budget.device).type != "cuda":
        return False
    return 2 * graph_bytes(graph) <= budget.device_room() - 3 * PRODUCT_BYTES["cuda"]


class DiskHops:
    """The hops of a network on a graph on disk: hop k of a block of columns, of the rows that are wanted.

    The operator's scale is taken from the graph where the model has none; what would not be exact is refused.

    Args:
        model: whose embedding, S and layers they are; on every worker the same.
        budget: of each worker.
        workers: that share the blocks of columns.
        width: columns of a block; None: as many as the budget allows.
    """

    def __init__(
        self, graph: DiskGraph, model: RAPGNN, budget: Budget, workers: Workers = ALONE, *, width: int | None = None
    ):
        config = model.config
        self.graph, self.model, self.budget, self.workers = graph, model.to(budget.device), budget, workers
        self.first = FirstHop(graph, self.model.embedding, config.normalize_features)
        loops, size = config.self_loops, workers.size
        self.width = width or block_width(graph, self.first.channels, budget, self_loops=loops, workers=size)
        if BACKBONES[config.backbone].includes_self and float(model.operator_scale) == 1.0:
            model.operator_scale.fill_(self.matrix.growth_rate())
        self.of = HopsOf(
            graph.fingerprint,
            config.backbone,
            loops,
            config.eps,
            tuple(stored_hops(model.spec)),
            model.spec.operator_scale,
            self.first.fingerprint(),
            self.first.channels,
        )
        self.depth, self.reason = self.of.hops[-1] + 1, ""  # steps of a block; why they are exact, after a check

    @cached_property
    def matrix(self) -> StreamedMatrix:
        """S."""
        config, keep = self.model.config, keeps_graph(self.graph, self.budget)
        how = {"self_loops": config.self_loops, "eps": config.eps, "device": self.budget.device}
        return StreamedMatrix(self.graph, config.backbone, **how, keep=keep)

    def check_exact(self) -> str:
        """Why the shortcut is exact here; refused where it is not. One number stands for the signs of many."""
        model, linear = self.model, self.model.spec.activation == "identity"  # then signs do not matter
        first = linear or self.first.nonnegative
        sign = GraphOperator(one_by_one(1.0 if linear or self.matrix.nonnegative else -1.0), eps=model.config.eps)
        obstacle = model.spec.obstacle(sign, torch.tensor([[0.0 if first else -1.0]]))
        if obstacle is not None:
            raise InputError(f"the hops of a graph on disk would not be exact: {obstacle}; set activation to identity.")
        return "the layers are linear" if linear else "weights, graph and embedded features are non-negative"

    def store(self, folder: Path | str, nodes: np.ndarray, on_hop: OnHop = silent) -> HopStore:
        """A store that has the hops of these nodes, which are filled in where they are missing.

        Args:
            nodes: ascending.
            folder: a new one, or a store of the same graph, embedding and layers that has these nodes.
        """
        self.reason = self.check_exact()
        stores: list[HopStore] = []
        self.workers.at_first(lambda: stores.append(HopStore.create(folder, self.of, nodes)))
        store = stores[0] if stores else HopStore.open(folder, verify=False, complete=False)
        self.fill(store, on_hop)
        store.tidy()
        return store

    @torch.no_grad()
    def fill(self, store: HopStore, on_hop: OnHop = silent) -> None:
        """Compute and store every block that is missing; on a GPU without enough memory by narrower blocks."""
        done = total = 0

        def say(hop: int) -> None:
            on_hop(done + hop + 1, total)

        while missing := self._missing(store):
            missing = missing[self.workers.rank :: self.workers.size]
            total = done + self.depth * len(missing)
            for columns, hops in self.blocks(store, missing, say):
                try:
                    for hop, parts in hops:
                        store.write(columns, hop, parts)
                    store.finish(columns)
                except BaseException as error:
                    store.drop(columns)  # nothing of half a block stays
                    if not isinstance(error, torch.OutOfMemoryError):
                        raise
                    self.width = narrower(columns[1] - columns[0])
                    break
                done += self.depth

    def _missing(self, store: HopStore) -> list[Columns]:
        """The blocks that are missing; where several workers share them, all come here before one of them goes on."""
        self.width = int(self.workers.smallest(self.width))
        missing = store.refresh(self.width)
        self.workers.wait()
        return missing

    def blocks(
        self, store: HopStore, missing: list[Columns], on_hop: Callable[[int], None]
    ) -> Iterator[tuple[Columns, Iterator[Hop]]]:
        """The hops of missing blocks, one after another.

        Args:
            on_hop: told which hop of the block is done.
        """
        for columns in missing:
            if columns in store.missing(self.width):  # nobody else has filled it meanwhile
                yield columns, self.walk(columns, store.rows, on_hop)

    @torch.no_grad()
    def walk(
        self, columns: Columns, rows: np.ndarray, on_hop: Callable[[int], None] = lambda hop: None
    ) -> Iterator[Hop]:
        """(k, the rows that are wanted, part by part) of every hop that is stored; the last one visits no others.

        Args:
            rows: nodes, ascending.
            on_hop: told every hop that is done.
        """
        hops, scale, matrix = self.of.hops, self.of.operator_scale, self.matrix
        h = self.first.columns(columns, matrix.device)
        other: Tensor | None = None
        for k in range(hops[-1] + 1):
            few = 0 < k == hops[-1] and 2 * len(rows) <= len(h)
            if few:
                other = None
                h = matrix.product_of(h, rows)
            elif k:
                other = torch.empty_like(h) if other is None else other
                h, other = matrix.product(h, other), h
            if k and scale != 1.0:
                h.div_(scale)
            if k in hops:
                yield k, iter(h.split(PART_ROWS)) if few else picked_parts(h, rows)
            on_hop(k)


def picked_parts(hop: Tensor, rows: np.ndarray) -> Iterator[Tensor]:
    """Some rows of a hop, part by part."""
    for part in blocks(len(rows), PART_ROWS):
        if len(rows) == len(hop):  # all of them, as they lie there
            yield hop[part]
        else:
            yield hop.index_select(0, torch.from_numpy(np.ascontiguousarray(rows[part])).to(hop.device))


def narrower(width: int) -> int:
    """Half of a width that a GPU had not enough memory for."""
    if width == 1:
        raise InputError("the GPU has too little free memory for one column: use the CPU.")
    gc.collect()
    torch.cuda.empty_cache()
    return -(-width // 2)


# What comes before the hops: which settings can be streamed, networks that need no training, and the store's folder.


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
        f"{config.coefficients} coefficients": config.coefficients != "random",
        f"the scaling {config.scaling}": config.scaling != "none",
        "components": config.components > 0,
    }
    fault = next((name for name, wrong in faults.items() if wrong), None)
    if fault is not None:
        raise InputError(f"a graph on disk cannot be used with {fault}: change that setting, or load the graph.")


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
    return RAPGNN(graph.num_features, out_channels=graph.num_outputs, seed=seed, config=config.update(head="ridge"))


def one_by_one(value: float, device: torch.device | str = "cpu") -> SparseMatrix:
    """A matrix with one entry."""
    arrays = torch.tensor([0, 1]), torch.tensor([0]), torch.tensor([value])
    return SparseMatrix.from_csr(*arrays, (1, 1)).to(device)


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
