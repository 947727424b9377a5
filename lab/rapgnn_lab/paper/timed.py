"""Time and memory of a strategy, measured as ``rapgnn bench`` does, and the figures of them on PubMed.

The kind "time" is an epoch and a prediction, the kind "memory" the peak above the loaded data, on a CPU in a process of
its own. Spec of a cell: ``method``, ``backbone``, ``num_layers``, ``hidden_channels``, the machine, and ``generated``,
the parameters of a graph that is made for it; of times also ``epochs`` (of what touches the labelled rows alone) and
``repeats``.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache, lru_cache

from rapgnn import Config
from rapgnn.compare import OnEpoch, Record
from rapgnn.datasets import find_dataset
from rapgnn.datasets.sources import cache_dir, data_dir, find_in
from rapgnn_lab import results
from rapgnn_lab.baselines.systems import METHODS
from rapgnn_lab.bench import depth as bench
from rapgnn_lab.bench.depth import SHORTCUT_EPOCHS, in_child, peak_of
from rapgnn_lab.bench.generated import PowerLaw, large_size
from rapgnn_lab.bench.timing import ReadyGraph, fits, ready
from rapgnn_lab.paper import plots, rows
from rapgnn_lab.paper.accuracy import accuracy_cell
from rapgnn_lab.paper.cells import KINDS, Cell, Graphs, Item, Scale
from rapgnn_lab.results import COLUMNS, NONE, Published, find_published, format_figure, make_table
from rapgnn_lab.store import machine, measure_or_say, packaged

TITLES: dict[str, str] = packaged("paper/strategies.toml")["timed"]
"""What is timed, in the order of the tables."""
SHARE = 0.05  # of a large graph's size, where the whole is too much
VERSION = 1
WARM_UP = cache(bench.warm_up_methods)  # once in a process: loading libraries is not charged to the first cell


def share_of(scale: Scale, device: str, quick: float) -> float:
    """How much of a large graph's size is generated: all of it on a GPU, and ``quick`` in a quick run."""
    return quick if scale.quick else 1.0 if device.startswith("cuda") else SHARE


def cost_cell(kind: str, graph: str | PowerLaw, method: str, sizes: Record, device: str, **labels: object) -> Cell:
    """A cell of the kind "time" or "memory", of a dataset or a graph to be generated; ``sizes`` are layers, channels,
    the backbone where it is not GCN, and of times epochs and repeats."""
    spec = {"method": method, "backbone": "gcn"} | sizes | {"version": VERSION} | machine(device)
    spec |= {} if isinstance(graph, str) else {"generated": asdict(graph)}
    return Cell(kind, graph if isinstance(graph, str) else graph.name, spec, {"title": TITLES[method]} | labels)


def measure_time(cell: Cell, graphs: Graphs, on_epoch: OnEpoch) -> Record:
    spec, method = cell.spec, cell.spec["method"]
    graph = _ready_graph(cell, graphs)
    WARM_UP(graphs.device, (method,))
    config = bench.bench_config(spec["num_layers"], spec["hidden_channels"])
    config = config.update(backbone=spec["backbone"], epochs=spec["epochs"])
    sizes = {"nodes": graph.num_nodes, "edges": graph.edge_index.shape[1], "task": graph.task}
    if not fits(bench.needed_bytes(method, graph, config), graph.y.device):
        return spec | sizes | {"note": "does not fit into memory"}
    return spec | sizes | measure_or_say(lambda: bench.measure(method, graph, config, spec["repeats"]))


def measure_memory(cell: Cell, graphs: Graphs, on_epoch: OnEpoch) -> Record:
    spec = cell.spec
    request = {key: spec[key] for key in ("method", "num_layers", "hidden_channels")}
    request |= {"data": spec.get("generated", cell.dataset), "device": graphs.device}
    request["data_dir"] = None if graphs.data_dir is None else str(graphs.data_dir)
    if graphs.device == "cpu":
        return spec | in_child(request)
    return spec | measure_or_say(lambda: peak_of(request, _ready_graph(cell, graphs)))


KINDS |= {"time": measure_time, "memory": measure_memory}


def _ready_graph(cell: Cell, graphs: Graphs) -> ReadyGraph:
    """The graph of a cell, features normalised, its operator built."""
    if "generated" in cell.spec:
        return _generated(PowerLaw(**cell.spec["generated"]), graphs.device, cell.spec["backbone"])
    return ready(graphs.get(cell.dataset).normalized_features(), cell.spec["backbone"])


@lru_cache(maxsize=1)
def _generated(size: PowerLaw, device: str, backbone: str) -> ReadyGraph:
    """The last one stays in memory: the cells of one graph follow one another."""
    return ready(size.generate().normalized_features().to(device), backbone)


def describe_generated(records: Sequence[Record]) -> str:
    """What stands in for the large graphs, below a table."""
    said = []
    for name, size in {r["dataset"]: r["generated"] for r in records if "generated" in r}.items():
        said.append(f"{name}: {size['nodes']:,} nodes, {size['edges']:,} edges, {size['features']} features")
    return f"Generated graphs, degrees by a power law. {'; '.join(said)}." if said else ""


# Figure 2: training time, inference time and accuracy on PubMed by depth, GCN with residual connections.

DATASET = "pubmed"
DEPTHS, QUICK_DEPTHS = (2, 4, 8, 16, 32), (2, 8, 32)
CHANNELS, CHANNELS_SCORED = 256, 64
REPEATS = 5
TIMED = tuple(method for method in TITLES if method != "pretrained-embedding")
SCORED = ("end-to-end", "fixed-diagonal", "fixed-full", "random-full", "rap")
SEEDS = 3


def depth_cells(scale: Scale, graphs: Graphs) -> list[Cell]:
    """The times of every depth, then the accuracies; none where no settings were searched."""
    depths = QUICK_DEPTHS if scale.quick else DEPTHS
    shared = {"hidden_channels": CHANNELS, "epochs": SHORTCUT_EPOCHS, "repeats": 1 if scale.quick else REPEATS}
    cells = [
        cost_cell("time", DATASET, method, {"num_layers": depth} | shared, graphs.device)
        for depth in depths
        for method in TIMED
    ]
    graph = graphs.get(DATASET)
    for method in SCORED:
        config = rows.settings(graph, rows.Row(METHODS[method].title, method, embedding="pretrained"), rows.FAITHFUL)
        if config is None:
            continue
        for depth in depths:
            deep = config.update(num_layers=depth, hidden_channels=CHANNELS_SCORED)
            short, said = rows.cut(graph, method, deep, scale)
            labels = {"column": rows.FAITHFUL, "title": METHODS[method].title} | ({"cut": said} if said else {})
            cells.append(accuracy_cell(DATASET, method, short, range(1 if scale.quick else SEEDS), labels))
    return cells


def show_depth(records: list[Record]) -> str:
    times = [r for r in records if r["kind"] == "time"]
    scored = [r | {"num_layers": r["config"]["num_layers"]} for r in records if r["kind"] == "accuracy"]
    titles = {method: METHODS[method].title for method in SCORED}

    def timed(key: str) -> str:
        return _by_depth(times, TITLES, lambda r: r.get("note") or results.format_ms(r[key]))

    parts = [
        ("Training, ms per epoch", timed("train_ms_per_epoch")),
        ("Inference, ms", timed("infer_ms")),
        ("Inference of all nodes from the graph on, ms", timed("infer_all_ms")),
        ("How many times as fast as End-to-End a training epoch is", _factors(times)),
        ("Accuracy on the test nodes, %", _by_depth(scored, titles, format_figure)),
    ]
    seeds = len(scored[0]["seeds"]) if scored else 0
    return rows.below(
        *(f"## {title}\n\n{table}" for title, table in parts if table),
        rows.note("depth-times", channels=CHANNELS),
        f"Accuracy: {CHANNELS_SCORED} channels for all, the other settings as chosen in the paper's ranges for an MLP "
        "as the embedding, at another depth; the draw that was best on validation. ±: standard deviation over "
        f"{seeds} seed{'s' if seeds > 1 else ''}."
        if scored
        else f"Accuracy: {rows.NOT_SEARCHED}.",
        rows.show_cuts(records, "depths 2, 8 and 32, one timed epoch of what walks through the graph, one seed"),
    )


def _by_depth(records: Sequence[Record], titles: dict[str, str], write: Callable[[Record], str]) -> str:
    depths = sorted({r["num_layers"] for r in records})
    return rows.by_place(records, "num_layers", {depth: f"{depth} layers" for depth in depths}, titles, write)


def _factors(times: Sequence[Record]) -> str:
    """Of both ways of RAP-GNN, and the paper's."""
    slow = {r["num_layers"]: r.get("train_ms_per_epoch") for r in times if r["method"] == "end-to-end"}
    paper = {p.num_layers: p.mean for p in find_published("costs", dataset=DATASET, metric="speedup_vs_end_to_end")}

    def ratio(r: Record) -> str:
        whole, own = slow.get(r["num_layers"]), r.get("train_ms_per_epoch")
        return results.format_ratio(whole / own) if whole and own else NONE

    depths = sorted({r["num_layers"] for r in times})
    printed = [f"{paper[depth]:g}×" if depth in paper else NONE for depth in depths]
    table = _by_depth(times, {method: TITLES[method] for method in ("rap-stepwise", "rap")}, ratio)
    return f"{table}\n| paper | {' | '.join(printed)} |" if table else ""


DEPTH = Item("depth", "Figure 2: time and accuracy by depth on PubMed", depth_cells, show_depth, plots.depth)

# Figures 3 and 6: peak memory of training, on PubMed with 32 layers and at ogbn-proteins' size.

MEMORY_LAYERS, PROTEINS_LAYERS = 32, 4
MEMORY_SHARE = 0.02  # of a quick run


def memory_cells(scale: Scale, graphs: Graphs) -> list[Cell]:
    """All strategies on both graphs; a quick run leaves out PyG's layers, the slowest."""
    proteins = large_size("ogbn-proteins", share_of(scale, graphs.device, MEMORY_SHARE))
    methods = [m for m in TITLES if not (scale.quick and m == "end-to-end-pyg")]
    places = ((DATASET, MEMORY_LAYERS), (proteins, PROTEINS_LAYERS))
    return [
        cost_cell("memory", graph, m, {"num_layers": layers, "hidden_channels": CHANNELS}, graphs.device)
        for graph, layers in places
        for m in methods
    ]


def show_memory(records: list[Record]) -> str:
    parts = []
    for name in dict.fromkeys(r["dataset"] for r in records):
        mine = bench.with_memory_ratios([r for r in records if r["dataset"] == name])
        said = [
            r | {"mb": r.get("note") or results.format_number(r.get("peak_memory_mb")), "paper": _saving(r)}
            for r in mine
        ]
        where = f"{results.title_of(name)}, {mine[0]['num_layers']} layers, {mine[0]['hidden_channels']} channels"
        parts.append(f"## {where}\n\n{make_table(said, COLUMNS['figure-memory'])}")
    gpu = str(records[0]["device"]).startswith("cuda")
    how = "peak of torch's allocator" if gpu else "peak resident size of a process of its own"
    quick = any(r.get("quick") for r in records)
    return rows.below(
        *parts,
        rows.note("memory", how=how),
        describe_generated(records),
        "Quick run, cut: PyG's layers are left out, and the generated graph is smaller." if quick else "",
    )


def _saving(record: Record) -> str:
    """The factor that the text gives, for the strategies it names."""
    dataset = "ogbn-proteins" if "generated" in record else record["dataset"]
    method = "rap" if record["method"] == "rap-stepwise" else record["method"]
    cells = find_published("costs", dataset=dataset, method=method, metric="memory_saving_vs_end_to_end")
    return NONE if not cells else cells[0].note or f"{cells[0].mean:g}×"


MEMORY = Item("memory", "Figures 3 and 6: peak memory of training", memory_cells, show_memory, plots.memory)

# Tables 7 and 8: ogbn-proteins and ogbn-products. Times and memory are those of generated graphs of that size. Accuracy
# needs the datasets themselves; they are some gigabytes, so they are used where they are and not fetched.

TIMED_LARGE = tuple(method for method in TITLES if method != "end-to-end-pyg")
LARGE_SHARE = 0.01
LARGE_EPOCHS, QUICK_EPOCHS, LARGE_REPEATS = 100, 30, 3
PAPER_TIMES = {"paper_train_ms": "train_ms_per_epoch", "paper_eval_ms": "eval_ms_per_epoch"}
ABSENT, LEFT_OUT = "not available here", "left out"


@dataclass(frozen=True)
class LargeTable:
    """A table of the paper, or the half of one backbone; settings inside its ranges, and fields of its cells."""

    dataset: str
    config: Config
    published: Record

    def paper(self, method: str, metric: str | None = None) -> Published | None:
        """The paper's figure, by default of the dataset's own metric; both ways of RAP-GNN are one method there."""
        method = "rap" if method == "rap-stepwise" else method
        cells = find_published(self.dataset, **self.published, method=method)
        return next((p for p in cells if p.metric in ((metric,) if metric else rows.UNITS)), None)

    def has(self, record: Record) -> bool:
        """Whether a record is of this table; times are of a graph named after the dataset."""
        named = record["dataset"] == self.dataset or (record["kind"] == "time" and self.dataset in record["dataset"])
        return named and record["backbone"] == self.config.backbone


_COMMON = {"normalize_features": False, "lr": 0.01, "dropout": 0.2}
_PROTEINS = Config(num_layers=4, hidden_channels=240, embedding="pretrained-gnn", head="mlp", epochs=500, **_COMMON)
_PRODUCTS = Config(num_layers=3, hidden_channels=256, epochs=30, **_COMMON)
TABLES = (
    LargeTable("ogbn-proteins", _PROTEINS, {}),
    LargeTable("ogbn-products", _PRODUCTS, {"backbone": "gcn"}),
    LargeTable("ogbn-products", _PRODUCTS.update(backbone="sage"), {"backbone": "sage"}),
)


def large_cells(scale: Scale, graphs: Graphs) -> list[Cell]:
    """The times of every strategy, and its accuracy where the dataset is there."""
    cells = []
    share = share_of(scale, graphs.device, LARGE_SHARE)
    for table in TABLES:
        files = find_dataset(table.dataset).files
        here = any(find_in(files, folder) for folder in (data_dir(graphs.data_dir), cache_dir()))
        missing = ABSENT if not here else LEFT_OUT if scale.quick else ""
        sizes = {name: getattr(table.config, name) for name in ("backbone", "num_layers", "hidden_channels")}
        epochs, repeats = (QUICK_EPOCHS, 1) if scale.quick else (LARGE_EPOCHS, LARGE_REPEATS)
        sizes |= {"epochs": epochs, "repeats": repeats}
        for method in TIMED_LARGE:
            beside = {name: table.paper(method, metric) for name, metric in PAPER_TIMES.items()}
            labels: Record = {name: cell.mean for name, cell in beside.items() if cell is not None}
            labels |= {"no_accuracy": missing} if missing else {}
            cells.append(cost_cell("time", large_size(table.dataset, share), method, sizes, graphs.device, **labels))
        cells += [] if missing else [_accuracy(table, method, scale) for method in rows.METHODS_OF_TABLES]
    return cells


def _accuracy(table: LargeTable, method: str, scale: Scale) -> Cell:
    config = table.config
    if METHODS[method].settings.get("structure") == "full":
        config = config.update(structure="full", distribution="glorot")
    if method == "rap":
        config = config.update(inference="sample", keep_draw=True)  # as in the other tables
    labels = {"column": rows.FAITHFUL, "title": METHODS[method].title}
    return accuracy_cell(table.dataset, method, config, scale.seeds, labels)


def show_large(records: list[Record]) -> str:
    by_table = [(table, [r for r in records if table.has(r)]) for table in TABLES]
    scored = [r for r in records if r["kind"] == "accuracy"]
    absent = dict.fromkeys(t.dataset for t, mine in by_table if any(r.get("no_accuracy") == ABSENT for r in mine))
    fetch = " and ".join(f"`rapgnn data get {name}`" for name in absent)
    return rows.below(
        *(_table(table, mine) for table, mine in by_table if mine),
        rows.note("large"),
        describe_generated(records),
        f"±: standard deviation over {len(scored[0]['seeds'])} seeds; settings inside the paper's ranges, not searched."
        if scored
        else "",
        f"Accuracy needs the dataset itself, which is {ABSENT}: {fetch}." if absent else "",
        rows.note("large-quick", share=LARGE_SHARE) if any(r.get("quick") for r in records) else "",
    )


def _table(table: LargeTable, records: Sequence[Record]) -> str:
    times = {r["method"]: r for r in records if r["kind"] == "time"}
    scores = {r["method"]: r for r in records if r["kind"] == "accuracy"}
    shown = []
    for method, r in times.items():
        score = NONE if method == "rap-stepwise" else format_figure(scores.get(method)) if scores else r["no_accuracy"]
        said = {"name": rows.bold(r["title"], method == "rap"), "score": score}
        said |= {key: r.get("note") or results.format_ms(r[key]) for key in ("train_ms_per_epoch", "infer_all_ms")}
        shown.append(r | said | {"paper": results.format_published(table.paper(method))})
    first = next(iter(times.values()))
    metric = "rocauc" if table.dataset == "ogbn-proteins" else "accuracy"
    where = f"{first['num_layers']} layers, {first['hidden_channels']} channels; times at {first['dataset']}"
    title = f"{table.dataset}, {plots.BACKBONES[table.config.backbone]}"
    return f"## {title}\n\n{where}.\n\n{make_table(shown, COLUMNS['large'].replace('METRIC', rows.UNITS[metric]))}"


LARGE = Item("large", "Tables 7 and 8: large graphs", large_cells, show_large, plots.large)
