"""Figure 2: training time, inference time and accuracy on PubMed by depth, GCN with residual connections."""

from collections.abc import Callable, Sequence

from rapgnn.experiments.bench.depth import SHORTCUT_EPOCHS
from rapgnn.experiments.markdown import NONE, format_ms, format_ratio, format_table
from rapgnn.experiments.published import find_published
from rapgnn.experiments.reproduce.accuracy import accuracy_cell
from rapgnn.experiments.reproduce.cells import Cell
from rapgnn.experiments.reproduce.figures.plots import plot_depth
from rapgnn.experiments.reproduce.item import Graphs, Item, Scale
from rapgnn.experiments.reproduce.quick import cut, walks
from rapgnn.experiments.reproduce.rows import FAITHFUL, Row, settings
from rapgnn.experiments.reproduce.tables import NOT_SEARCHED, below, figure, show_cuts
from rapgnn.experiments.reproduce.timed import TITLES, time_cell
from rapgnn.experiments.run import Record
from rapgnn.graph.graph import Graph
from rapgnn.models.config import Config
from rapgnn.training.methods import METHODS

DATASET = "pubmed"
DEPTHS, QUICK_DEPTHS = (2, 4, 8, 16, 32), (2, 8, 32)
CHANNELS, CHANNELS_SCORED = 256, 64
REPEATS = 5
TIMED = tuple(method for method in TITLES if method != "pretrained-embedding")
SCORED = ("end-to-end", "fixed-diagonal", "fixed-full", "random-full", "rap")
SEEDS = 3
WALKED_EPOCHS = 10  # of a quick run, where every epoch walks through the graph


def cells(scale: Scale, graphs: Graphs) -> list[Cell]:
    """The times of every depth, then the accuracies; none where no settings were searched."""
    depths = QUICK_DEPTHS if scale.quick else DEPTHS
    shared = {"hidden_channels": CHANNELS, "epochs": SHORTCUT_EPOCHS, "repeats": 1 if scale.quick else REPEATS}
    found = [
        time_cell(DATASET, method, {"num_layers": depth} | shared, graphs.device, {})
        for depth in depths
        for method in TIMED
    ]
    graph = graphs.get(DATASET)
    for method in SCORED:
        config = settings(graph, Row(METHODS[method].title, method), FAITHFUL)
        found += [] if config is None else [score_cell(graph, method, config, n, scale) for n in depths]
    return found


def score_cell(graph: Graph, method: str, config: Config, num_layers: int, scale: Scale) -> Cell:
    """The accuracy of a method with its settings at another depth."""
    config = config.update(num_layers=num_layers, hidden_channels=CHANNELS_SCORED)
    short, said = cut(graph, method, config, scale)
    if scale.quick and walks(method, short) and short.epochs > WALKED_EPOCHS:
        short, said = short.update(epochs=WALKED_EPOCHS), f"{WALKED_EPOCHS} of {config.epochs} epochs"
    labels = {"column": FAITHFUL, "title": METHODS[method].title} | ({"cut": said} if said else {})
    return accuracy_cell(DATASET, method, short, range(1 if scale.quick else SEEDS), labels)


def show(records: list[Record]) -> str:
    """Three tables, a column per depth, and the paper's factors beside ours."""
    times = [r for r in records if r["kind"] == "time"]
    scored = [r | {"num_layers": r["config"]["num_layers"]} for r in records if r["kind"] == "accuracy"]
    parts = [
        ("Training, ms per epoch", _by_depth(times, TITLES, lambda r: _ms(r, "train_ms_per_epoch"))),
        ("Inference, ms", _by_depth(times, TITLES, lambda r: _ms(r, "infer_ms"))),
        ("Inference of all nodes from the graph on, ms", _by_depth(times, TITLES, lambda r: _ms(r, "infer_all_ms"))),
        ("How many times as fast as End-to-End a training epoch is", _factors(times)),
        ("Accuracy on the test nodes, %", _by_depth(scored, {m: METHODS[m].title for m in SCORED}, figure)),
    ]
    return below(
        *(f"## {title}\n\n{table}" for title, table in parts if table),
        f"Times: {CHANNELS} channels, without validation. The shortcut and fixed weights keep what they need of the "
        "labelled rows, so their epochs do not walk through the graph; layer by layer is the paper's way. Inference: "
        "test nodes with all that can be kept prepared, all nodes where nothing can. The paper's figure prints no "
        "numbers; the factors are from its text (RTX 4090).",
        f"Accuracy: {CHANNELS_SCORED} channels for all, the other settings as chosen for the paper's columns of "
        "table 1 at another depth; the draw that was best on validation. ±: standard deviation over "
        f"{len(scored[0]['seeds'])} seed{'s' if len(scored[0]['seeds']) > 1 else ''}."
        if scored
        else f"Accuracy: {NOT_SEARCHED}.",
        show_cuts(
            [{"quick": False} | r for r in records],
            "depths 2, 8 and 32, one timed epoch of what walks through the graph, one seed",
        ),
    )


def _by_depth(records: Sequence[Record], titles: dict[str, str], write: Callable[[Record], str]) -> str:
    """A row per method, a column per depth."""
    depths = sorted({r["num_layers"] for r in records})
    found = {(r["method"], r["num_layers"]): r for r in records}
    rows = []
    for method, title in titles.items():
        if any(name == method for name, _ in found):
            mine = [found.get((method, depth)) for depth in depths]
            rows.append([_bold(method, title), *(NONE if r is None else write(r) for r in mine)])
    return format_table(["", *(f"{depth} layers" for depth in depths)], rows) if rows else ""


def _bold(method: str, title: str) -> str:
    return f"**{title}**" if method == "rap" else title


def _ms(record: Record, key: str) -> str:
    return record.get("note") or format_ms(record[key])


def _factors(times: Sequence[Record]) -> str:
    """Of both ways of RAP-GNN, and the paper's."""
    found = {(r["method"], r["num_layers"]): r.get("train_ms_per_epoch") for r in times}
    depths = sorted({depth for _, depth in found})
    rows = []
    for method in ("rap-stepwise", "rap"):
        pairs = [(found.get(("end-to-end", depth)), found.get((method, depth))) for depth in depths]
        rows.append([_bold(method, TITLES[method]), *(format_ratio(s / f) if s and f else NONE for s, f in pairs)])
    paper = {p.num_layers: p.mean for p in find_published("costs", dataset=DATASET, metric="speedup_vs_end_to_end")}
    rows.append(["paper", *(f"{paper[depth]:g}×" if depth in paper else NONE for depth in depths)])
    return format_table(["", *(f"{depth} layers" for depth in depths)], rows) if times else ""


ITEM = Item("depth", "Figure 2: time and accuracy by depth on PubMed", cells, show, plot_depth)
