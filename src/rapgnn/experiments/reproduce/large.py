"""Tables 7 and 8: the large graphs ogbn-proteins and ogbn-products, accuracy, time and memory of all strategies.

Times and memory are measured on generated graphs of that size. Accuracy needs the datasets themselves; they are some
gigabytes, so they are used where they are and not fetched.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from rapgnn.datasets import find_dataset
from rapgnn.datasets.sources import cache_dir, data_dir, find_in
from rapgnn.experiments.bench.generated import SIZES, PowerLaw, proteins_size
from rapgnn.experiments.bench.tables import number
from rapgnn.experiments.markdown import NONE, format_ms, format_published, format_table
from rapgnn.experiments.published import Published, find_published
from rapgnn.experiments.reproduce.accuracy import accuracy_cell
from rapgnn.experiments.reproduce.cells import Cell
from rapgnn.experiments.reproduce.figures.plots import BACKBONES, plot_large
from rapgnn.experiments.reproduce.item import Graphs, Item, Scale
from rapgnn.experiments.reproduce.rows import FAITHFUL, METHODS_OF_TABLES
from rapgnn.experiments.reproduce.tables import UNITS, below, figure
from rapgnn.experiments.reproduce.timed import TITLES, describe_generated, share_of, time_cell
from rapgnn.experiments.run import Record
from rapgnn.models.config import Config
from rapgnn.training.methods import METHODS

TIMED = tuple(method for method in TITLES if method != "end-to-end-pyg")
QUICK_SHARE = 0.01
EPOCHS, QUICK_EPOCHS, REPEATS = 100, 30, 3
PAPER_TIMES = {"paper_train_ms": "train_ms_per_epoch", "paper_eval_ms": "eval_ms_per_epoch"}
ABSENT, LEFT_OUT = "not available here", "left out"


def products_size(share: float = 1.0) -> PowerLaw:
    """ogbn-products' numbers of nodes, edges, features and classes, or a share of its nodes and edges."""
    whole = SIZES["products"]
    counts = {name: max(1, round(share * getattr(whole, name))) for name in ("nodes", "edges", "train", "val", "test")}
    counts["test"] = min(counts["test"], counts["nodes"] - counts["train"] - counts["val"])
    name = "ogbn-products size" if share == 1 else f"{share:g} of ogbn-products' size"
    return replace(whole, **counts, name=name)


@dataclass(frozen=True)
class Table:
    """A table of the paper, or the half of one backbone.

    Args:
        size: share -> a graph of that share of its size.
        config: inside the paper's ranges, not searched.
        published: the paper's table, and fields of its cells.
    """

    dataset: str
    size: Callable[[float], PowerLaw]
    config: Config
    published: Record = field(default_factory=dict)

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.dataset}, {BACKBONES[self.config.backbone]}"

    def paper(self, method: str, metric: str | None = None) -> Published | None:
        """The paper's figure, by default of the dataset's own metric; both ways of RAP-GNN are one method there."""
        method = "rap" if method == "rap-stepwise" else method
        found = find_published(**self.published, method=method)
        wanted = (metric,) if metric else UNITS
        return next((p for p in found if p.metric in wanted), None)

    def has(self, record: Record) -> bool:
        """Whether a record is of this table."""
        backbone = record["backbone"] == self.config.backbone
        if record["kind"] == "accuracy":
            return backbone and record["dataset"] == self.dataset
        return backbone and self.dataset in record["dataset"]


_COMMON = {"normalize_features": False, "lr": 0.01, "dropout": 0.2}
_PROTEINS = Config(num_layers=4, hidden_channels=240, embedding="pretrained-gnn", head="mlp", epochs=500, **_COMMON)
_PRODUCTS = Config(num_layers=3, hidden_channels=256, epochs=30, **_COMMON)
LARGE = (
    Table("ogbn-proteins", proteins_size, _PROTEINS, {"table": "ogbn-proteins"}),
    Table("ogbn-products", products_size, _PRODUCTS, {"table": "ogbn-products", "backbone": "gcn"}),
    Table(
        "ogbn-products",
        products_size,
        _PRODUCTS.update(backbone="sage"),
        {"table": "ogbn-products", "backbone": "sage"},
    ),
)


def cells(scale: Scale, graphs: Graphs) -> list[Cell]:
    """The times of every strategy, and its accuracy where the dataset is there."""
    found = []
    share = share_of(scale, graphs.device, QUICK_SHARE)
    for table in LARGE:
        there = is_there(table.dataset, graphs)
        missing = ABSENT if not there else LEFT_OUT if scale.quick else ""
        sizes = {name: getattr(table.config, name) for name in ("backbone", "num_layers", "hidden_channels")}
        sizes |= {"epochs": QUICK_EPOCHS, "repeats": 1} if scale.quick else {"epochs": EPOCHS, "repeats": REPEATS}
        labels = {"no_accuracy": missing} if missing else {}
        for method in TIMED:
            beside = {name: table.paper(method, metric) for name, metric in PAPER_TIMES.items()}
            paper = {name: cell.mean for name, cell in beside.items() if cell is not None}
            found.append(time_cell(table.size(share), method, sizes, graphs.device, labels | paper))
        found += [] if missing else [_accuracy(table, method, scale) for method in METHODS_OF_TABLES]
    return found


def is_there(dataset: str, graphs: Graphs) -> bool:
    """Whether a dataset's files lie in the user's folder or in the cache."""
    files = find_dataset(dataset).files
    own = find_in(files, data_dir(graphs.data_dir))
    return own is not None or find_in(files, cache_dir()) is not None


def _accuracy(table: Table, method: str, scale: Scale) -> Cell:
    config = table.config
    if METHODS[method].settings.get("structure") == "full":
        config = config.update(structure="full", distribution="glorot")
    if method == "rap":
        config = config.update(inference="sample", keep_draw=True)  # as in the other tables
    labels = {"column": FAITHFUL, "title": METHODS[method].title}
    return accuracy_cell(table.dataset, method, config, scale.seeds, labels)


def show(records: list[Record]) -> str:
    """A table for each graph and backbone."""
    parts = [_table(table, mine) for table in LARGE if (mine := [r for r in records if table.has(r)])]
    quick, scored = any(r.get("quick") for r in records), [r for r in records if r["kind"] == "accuracy"]
    absent = list(dict.fromkeys(table.dataset for table in LARGE for r in records if table.has(r) and _absent(r)))
    fetch = " and ".join(f"`rapgnn data get {name}`" for name in absent)
    return below(
        *parts,
        "train: a training epoch without validation; evaluation: one pass that scores all nodes, from the graph on. "
        "The paper's times are from an RTX 4090, so compare strategies, not milliseconds. The shortcut and fixed "
        "weights keep what they need of the labelled rows, so their epochs do not walk through the graph; layer by "
        "layer is the paper's way. MB: peak memory of training above the loaded data. GCN has residual connections.",
        describe_generated(records),
        f"±: standard deviation over {len(scored[0]['seeds'])} seeds; settings inside the paper's ranges, not searched."
        if scored
        else "",
        f"Accuracy needs the dataset itself, which is {ABSENT}: {fetch}." if absent else "",
        f"Quick run, cut: generated graphs of {QUICK_SHARE:g} of the size, one timed epoch of what walks through the "
        "graph, no accuracy."
        if quick
        else "",
    )


def _absent(record: Record) -> bool:
    return record.get("no_accuracy") == ABSENT


def _table(table: Table, records: Sequence[Record]) -> str:
    times = {r["method"]: r for r in records if r["kind"] == "time"}
    scores = {r["method"]: r for r in records if r["kind"] == "accuracy"}
    rows = []
    for method, r in times.items():
        score = NONE if method == "rap-stepwise" else figure(scores.get(method)) if scores else r["no_accuracy"]
        paper, title = table.paper(method), f"**{r['title']}**" if method == "rap" else r["title"]
        row = [title, score, NONE if paper is None else format_published(paper)]
        for ours, theirs in (("train_ms_per_epoch", "paper_train_ms"), ("infer_all_ms", "paper_eval_ms")):
            row += [r.get("note") or format_ms(r[ours]), f"{r[theirs]:,.0f}" if theirs in r else NONE]
        rows.append([*row, number(r.get("peak_memory_mb"))])
    first = next(iter(times.values()))
    metric = "rocauc" if table.dataset == "ogbn-proteins" else "accuracy"
    header = ["", UNITS[metric], "paper", "train, ms", "paper", "evaluation, ms", "paper", "MB"]
    where = f"{first['num_layers']} layers, {first['hidden_channels']} channels; times at {first['dataset']}"
    return f"## {table.title}\n\n{where}.\n\n{format_table(header, rows)}"


ITEM = Item("large", "Tables 7 and 8: large graphs", cells, show, plot_large)
