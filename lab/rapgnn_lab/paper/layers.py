"""What deep networks do layer by layer on PubMed: rank and variance of the features, and trained weight matrices.

The kind "collapse" measures a whole network, once. Spec of a cell: ``method`` (a name in ``STRATEGIES``),
``base_method`` (the training method it is), ``config``, ``start`` (what the start values of trained layers are
multiplied by), ``seed`` and ``layers``, those that are measured. Everything after the embedding is computed in float64
by the raw equation, whose values outgrow float32. The kinds "layer" and "matrix" are one layer or one matrix of it.
"""

import base64
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from rapgnn import Config, EndToEnd, Graph, Propagation
from rapgnn.compare import OnEpoch, Record
from rapgnn.graph.operator import GraphOperator
from rapgnn.network.rapgnn import model_inputs
from rapgnn.network.stepwise import Layers, propagate
from rapgnn.sparse import dense
from rapgnn.training.fit import build_rapgnn
from rapgnn.training.loop import optimise, schedule
from rapgnn.training.pretrain import pretrain
from rapgnn_lab.baselines.systems import METHODS
from rapgnn_lab.paper import plots
from rapgnn_lab.paper.cells import KINDS, PARTS, Cell, Graphs, Item, Parts, Scale
from rapgnn_lab.paper.collapse import collapse_metrics
from rapgnn_lab.paper.rows import Row, below, by_place, note
from rapgnn_lab.results import COLUMNS, NONE, make_table
from rapgnn_lab.store import packaged

FIGURES = ("rank", "rank_float64", "effective_rank", "variance")
LEVELS = 127  # of each sign, of a packed matrix
DATASET, SEED = "pubmed", 0
LAYERS, CHANNELS, QUICK_CHANNELS = 64, 256, 32
QUICK_LAYERS = (0, 1, 2, 4, 8, 16, 32, 64)
EPOCHS, QUICK_EPOCHS = 1000, 30  # of end-to-end training
SHOWN = (0, 1, 4, 16, 64)
# Fixed, inside the paper's ranges, and not searched; full matrices as the frameworks start them.
SETTINGS = Config(rescale=False, embedding_layers=1, lr=0.01, dropout=0.0, weight_decay=5e-4)
VERSION = 1


@dataclass(frozen=True)
class Network:
    """L layers with their weights, as ``Propagation.draw_all`` names them, and h⁰, which goes into the first one."""

    spec: Propagation
    operator: GraphOperator
    start: Tensor
    weights: Layers
    about: Record

    @torch.no_grad()
    def outputs(self) -> Iterator[Tensor]:
        """h⁰, h¹ … h^L in float64, one at a time."""
        one = replace(self.spec, num_layers=1, rescale=False, layer_dropout=0.0)
        operator = replace(self.operator, matrix=self.operator.matrix.to(dtype=torch.float64))
        h = self.start.double()
        yield h
        for layer in range(self.spec.num_layers):
            h = propagate(one, operator, h, {name: w[layer : layer + 1].double() for name, w in self.weights.items()})
            yield h


def measure_collapse(cell: Cell, graphs: Graphs, on_epoch: OnEpoch) -> Record:
    """Lists of figures, one entry per measured layer."""
    spec, graph = cell.spec, graphs.get(cell.dataset)
    config = Config(**spec["config"])
    if METHODS[spec["base_method"]].trained:
        network = trained_network(graph, config, spec["seed"], spec["start"], on_epoch)
    else:
        network = random_network(graph, config, spec["seed"], spec["base_method"], on_epoch)
    measured = [layer_figures(h) for layer, h in enumerate(network.outputs()) if layer in spec["layers"]]
    sizes: Record = {name: getattr(config, name) for name in ("num_layers", "hidden_channels")}
    sizes |= {"nodes": graph.num_nodes, "rank_tolerance": tolerance(graph.num_nodes, config.hidden_channels)}
    return spec | sizes | network.about | {name: [one[name] for one in measured] for name in FIGURES}


def random_network(graph: Graph, config: Config, seed: int, method: str, on_epoch: OnEpoch = None) -> Network:
    """The pretrained embedding, and one draw of the weights as at inference."""
    config = METHODS[method].configure(config)
    model, graph, operator = build_rapgnn(graph, config, seed)
    pretrain(model, graph, operator, on_epoch)
    h = model.embed(graph.x, operator, engine="stepwise").h
    assert h is not None
    counter = model.spec.weights.evaluation_counter(0)
    drawn = model.spec.draw_all(counter, config.hidden_channels, device=h.device, dtype=torch.float64)
    return Network(model.spec, operator, dense(h), {name: w[0] for name, w in drawn.items()}, {})


def trained_network(graph: Graph, config: Config, seed: int, start: float = 1.0, on_epoch: OnEpoch = None) -> Network:
    """End-to-end training without dropout; how well it did, and the first and the last weights beside their start."""
    graph, operator = model_inputs(graph, config)
    model = EndToEnd(graph.num_features, graph.num_outputs, config, graph.num_edge_features, seed).to(graph.y.device)
    model.weights.data.mul_(start)
    before = model.weights.detach().clone()

    def scores(split: str) -> Tensor:
        return model(graph.x, operator)[graph.rows(split)]

    rule, y = graph.objective, graph.y
    passes = lambda epoch: [(scores("train"), y[graph.train])]  # noqa: E731
    loop = optimise([model], passes, graph, lambda epoch: scores("val"), **schedule(config), on_epoch=on_epoch)
    with torch.no_grad():
        scored = {split: rule.score(scores(split), y[graph.rows(split)]) for split in ("val", "test")}
        h = model.embedding(graph.x)
    after = model.weights.detach()
    ends = [describe_matrix(before[i, 0], after[i, 0]) | {"layer": i + 1} for i in (0, config.num_layers - 1)]
    about = {"epochs": loop.epochs, "best_epoch": loop.best_epoch, **scored, "matrices": ends}
    return Network(model.spec, operator, h, {t: after[:, i] for i, t in enumerate(model.spec.rule.terms)}, about)


def layer_figures(h: Tensor) -> Record:
    """Numerical ranks, effective rank, and the variance over the nodes, averaged over the channels.

    h = QR with orthonormal columns in Q, so the small matrix R has the singular values of h.
    """
    scale = float(h.abs().max())
    if not 0 < scale < float("inf"):
        return dict.fromkeys(FIGURES, 0 if scale == 0 else None)
    h, (n, d) = h.double() / scale, h.shape
    R = torch.linalg.qr(h, mode="r").R
    singular = torch.linalg.svdvals(R)
    no_edges = torch.zeros(2, 0, dtype=torch.int64)
    return {
        "rank": int((singular > tolerance(n, d) * singular[0]).sum()),
        "rank_float64": int((singular > tolerance(n, d, torch.float64) * singular[0]).sum()),
        "effective_rank": collapse_metrics(R, no_edges)["effective_rank"],
        "variance": float(h.var(0, correction=0).mean()) * scale * scale,
    }


def tolerance(rows: int, channels: int, dtype: torch.dtype = torch.float32) -> float:
    """Singular values below this share of the largest count as zero, as ``torch.linalg.matrix_rank`` has it."""
    return max(rows, channels) * torch.finfo(dtype).eps


def diagonal_share(matrix: Tensor) -> float:
    """The share of the squared entries on the diagonal: 1 for a diagonal matrix, about 1/d for a random one."""
    total = float(matrix.double().square().sum())
    return float(matrix.double().diagonal().square().sum()) / total if total else 0.0


def diagonal_size(matrix: Tensor) -> float:
    """The mean magnitude of the entries on the diagonal, divided by that of all others."""
    size, on = matrix.double().abs(), matrix.double().diagonal().abs()
    others = (float(size.sum()) - float(on.sum())) / max(1, size.numel() - on.numel())
    return float(on.mean()) / others if others else float("inf")


def describe_matrix(before: Tensor, after: Tensor) -> Record:
    return {
        "diagonal_share": diagonal_share(after),
        "start_diagonal_share": diagonal_share(before),
        "random_diagonal_share": 1 / len(after),
        "diagonal_size": diagonal_size(after),
        "start_diagonal_size": diagonal_size(before),
        "moved": float((after - before).double().norm() / before.double().norm()),
        "matrix": pack(after),
    }


def pack(matrix: Tensor) -> Record:
    """Every entry as one of 255 levels, in base64; an entry is off by half a ``step`` at most."""
    values = matrix.detach().double().cpu().numpy()
    step = float(np.abs(values).max(initial=0.0)) / LEVELS
    levels = np.round(values / step if step else values).astype(np.int8)
    return {"shape": list(values.shape), "step": step, "levels": base64.b64encode(levels.tobytes()).decode()}


# The items: figure 4 and Section 3.2, and figure 5.


_LINES = packaged("paper/strategies.toml")["layers"]
STRATEGIES = {name: Row(**{"title": METHODS[row["method"]].title} | row) for name, row in _LINES.items()}
"""The lines of the figure."""
TRAINED = {"end-to-end": 1.0, "end-to-end-small": LAYERS**-0.5}
"""What the start values are multiplied by: with Glorot's so deep a network hardly learns; divided by √L they let it."""


def strategy_cell(name: str, scale: Scale) -> Cell:
    chosen = STRATEGIES[name]
    sizes = {"num_layers": LAYERS, "hidden_channels": QUICK_CHANNELS if scale.quick else CHANNELS}
    config = SETTINGS.update(**sizes, epochs=QUICK_EPOCHS if scale.quick else EPOCHS, **chosen.changes)
    layers = QUICK_LAYERS if scale.quick else range(LAYERS + 1)
    spec = {"method": name, "base_method": chosen.method, "config": config.to_dict(), "seed": SEED}
    spec |= {"start": TRAINED[name]} if name in TRAINED else {}
    return Cell("collapse", DATASET, spec | {"layers": list(layers), "version": VERSION})


def part_of(whole: Cell, kind: str, layer: int, labels: Record) -> Cell:
    return Cell(kind, whole.dataset, whole.spec | {"layer": layer}, labels)


def whole_of(part: Cell, graphs: Graphs) -> list[Cell]:
    return [Cell("collapse", part.dataset, {k: v for k, v in part.spec.items() if k != "layer"})]


def layer_cells(scale: Scale, graphs: Graphs) -> list[Cell]:
    wholes = {row.title: strategy_cell(name, scale) for name, row in STRATEGIES.items()}
    return [
        part_of(whole, "layer", layer, {"title": title})
        for title, whole in wholes.items()
        for layer in whole.spec["layers"]
    ]


def matrix_cells(scale: Scale, graphs: Graphs) -> list[Cell]:
    return [
        part_of(strategy_cell(name, scale), "matrix", layer, {"title": f"{STRATEGIES[name].title}, layer {layer}"})
        for name in TRAINED
        for layer in (1, LAYERS)
    ]


_NETWORK = ("method", "num_layers", "hidden_channels", "seed", "epochs", "best_epoch", "val", "test")


def join_layer(cell: Cell, wholes: Sequence[Record]) -> Record:
    (whole,) = wholes
    at = cell.spec["layers"].index(cell.spec["layer"])
    about = {name: whole[name] for name in (*_NETWORK, "nodes", "rank_tolerance") if name in whole}
    return about | {"layer": cell.spec["layer"]} | {name: whole[name][at] for name in FIGURES}


def join_matrix(cell: Cell, wholes: Sequence[Record]) -> Record:
    (whole,) = wholes
    (matrix,) = (m for m in whole["matrices"] if m["layer"] == cell.spec["layer"])
    return {name: whole[name] for name in _NETWORK} | matrix


KINDS["collapse"] = measure_collapse
PARTS |= {"layer": Parts(whole_of, join_layer), "matrix": Parts(whole_of, join_matrix)}


def show_layers(records: list[Record]) -> str:
    first = records[0]
    return below(
        f"## Rank, at most {first['hidden_channels']}\n\n{_by_layer(records, 'rank', '.0f')}",
        f"## Rank in float64\n\n{_by_layer(records, 'rank_float64', '.0f')}",
        f"## Effective rank\n\n{_by_layer(records, 'effective_rank', '.1f')}",
        f"## Mean variance\n\n{_by_layer(records, 'variance', '.2g', growth=True)}",
        note("layers", **first),
        "Full random matrices are Glorot's, with signs; U[0, 1] is what the paper's Observation 1 assumes.",
        _describe_training(records),
        f"Quick run, cut: {QUICK_CHANNELS} of {CHANNELS} channels, {QUICK_EPOCHS} of {EPOCHS} epochs of end-to-end "
        f"training, {len(QUICK_LAYERS)} of {LAYERS + 1} layers measured."
        if first.get("quick")
        else "",
    )


def _by_layer(records: Sequence[Record], key: str, digits: str, growth: bool = False) -> str:
    """A row per method; ``growth``: and the factor per layer in a column of its own."""
    there, places = {r["layer"] for r in records}, {layer: f"layer {layer}" for layer in SHOWN}
    places = {layer: title for layer, title in places.items() if layer in there} | ({-1: "growth"} if growth else {})
    write = lambda r: r.get("growth") or (NONE if r.get(key) is None else f"{r[key]:{digits}}")  # noqa: E731
    titles = {r["method"]: r["title"] for r in records}
    more = [{"method": name, "layer": -1, "growth": _growth(records, name, key)} for name in titles]
    return by_place([*records, *more], "layer", places, titles, write)


def _growth(records: Sequence[Record], method: str, key: str) -> str:
    values = sorted((r["layer"], r.get(key)) for r in records if r["method"] == method)
    (start, first), (end, last) = values[0], values[-1]
    return f"{math.exp(math.log(last / first) / (end - start)):.2f}×" if first and last else NONE


def _describe_training(records: Sequence[Record]) -> str:
    trained = {r["method"]: r for r in records if r["method"] in TRAINED}
    said = [
        f"{STRATEGIES[name].title}: {100 * r['val']:.1f} % on validation and {100 * r['test']:.1f} % on test after "
        f"epoch {r['best_epoch'] + 1} of {r['epochs']}, the best on validation"
        for name, r in trained.items()
    ]
    return f"{'; '.join(said)}. Small start values are Glorot's divided by √{LAYERS}." if said else ""


def show_matrices(records: list[Record]) -> str:
    first = records[0]
    percent = {"start_share": "start_diagonal_share", "share": "diagonal_share", "moved_share": "moved"}
    shown = [r | {name: 100 * r[key] for name, key in percent.items()} for r in records]
    shown = [r | {"times": r["diagonal_share"] / r["random_diagonal_share"]} for r in shown]
    return below(
        make_table(shown, COLUMNS["matrices"]),
        note("diagonals", random=100 / first["hidden_channels"]),
        "The paper shows the matrices without numbers and says that they are not diagonal.",
        f"GCN with residual connections, {first['num_layers']} layers, {first['hidden_channels']} channels.",
        _describe_training(records),
        f"Quick run, cut: {QUICK_CHANNELS} of {CHANNELS} channels, {QUICK_EPOCHS} of {EPOCHS} epochs."
        if first.get("quick")
        else "",
    )


COLLAPSE = Item("collapse", "Figure 4: rank and variance by layer on PubMed", layer_cells, show_layers, plots.collapse)
WEIGHTS = Item(
    "weights",
    "Figure 5: weight matrices after end-to-end training on PubMed",
    matrix_cells,
    show_matrices,
    plots.weights,
)
