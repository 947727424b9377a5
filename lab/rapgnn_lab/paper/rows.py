"""The tables of accuracies: their rows, the cells that fill them, what a quick run leaves out, and their Markdown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rapgnn import Config, Graph, InputError
from rapgnn.network.encode import EMBEDDINGS
from rapgnn_lab import results
from rapgnn_lab.baselines.systems import METHODS
from rapgnn_lab.paper.accuracy import BOTH, ESTIMATOR, PAPER, accuracy_cell
from rapgnn_lab.paper.cells import Cell, Graphs, Scale
from rapgnn_lab.results import NONE, Published, format_figure, format_table, title_of
from rapgnn_lab.store import Record, packaged
from rapgnn_lab.tuned import REACHABLE, chosen_config

FAITHFUL, BEST, EXPECTATION = "faithful", "best", "expectation"
ANOTHER, UNIFORM, LINEAR, OWN = "another draw", "uniform", "linear", "own search"
OF_MLP, OF_LAYER = "MLP", "GNN layer"
FOLD_SEEDS = (0,)
WITH_BEST = ("rap", "end-to-end")  # what is compared; the other strategies explain it, in the paper's settings
PLANETOID, TU = ("cora", "citeseer", "pubmed"), ("mutag", "ptc", "proteins")
MOLECULES, MOLBACE = ("molesol", "moltox21", "molhiv"), ("molbace",)
METHODS_OF_TABLES = ("pretrained-embedding", "end-to-end", "fixed-diagonal", "fixed-full", "random-full", "rap")
RESERVOIRS = {name: METHODS[name].title for name in ("mrgnn", "u-gcn", "p-rgnn", "fdgnn")}


@dataclass(frozen=True)
class Row:
    """A row: a method, and what is particular about its settings.

    Without a ``column`` it has a cell with the faithful settings, and one with the best and the reachable ones where
    the method has them; with one a single cell, of the faithful settings and ``changes``. ``published``: which figures
    of the paper are this row's, fields of ``Published`` beside the method and the dataset.
    """

    title: str
    method: str
    column: str | None = None
    changes: Record = field(default_factory=dict)
    embedding: str | None = None
    published: Record | None = None
    protocol: str = PAPER

    def columns(self, asked: Sequence[str]) -> tuple[str, ...]:
        """Those of the asked columns that it has a cell in."""
        if self.column is not None:
            return (self.column,)
        having = {BEST: WITH_BEST, REACHABLE: ("rap",) if self.embedding is None else ()}
        return tuple(column for column in asked if self.method in having.get(column, (self.method,)))

    def paper(self, dataset: str) -> Published | None:
        if self.published is None:
            return None
        return results.one_published(**{"dataset": dataset, "method": self.method} | self.published)


def strategies(table: str, methods: Sequence[str], both: Sequence[str] = ()) -> tuple[Row, ...]:
    """The rows of a table of the paper, in its order; methods in ``both`` are measured by both protocols on folds."""
    published = {"table": table}
    protocols = {method: BOTH if method in both else PAPER for method in methods}
    return tuple(Row(METHODS[m].title, m, published=published, protocol=protocols[m]) for m in methods)


NOTHING_SET = Row("estimator, nothing set", ESTIMATOR, BEST)
"""What the library chooses by itself among random networks and averages of them."""


def cells_of(
    rows: Sequence[Row],
    datasets: Sequence[str],
    scale: Scale,
    graphs: Graphs,
    columns: Sequence[str] = (FAITHFUL, BEST, REACHABLE),
) -> list[Cell]:
    """The cells of these rows on these datasets; none where no settings were searched."""
    cells = []
    for graph in map(graphs.get, datasets):
        for row in rows:
            for column in row.columns(columns):
                config = settings(graph, row, column)
                if config is not None:
                    cells.append(_cell(graph, row, column, config, scale))
    return cells


def settings(graph: Graph, row: Row, column: str) -> Config | None:
    """What a row is trained with; None where nothing was searched, or there is no such model."""
    if not _configured(row.method):
        return Config()  # its settings are its own paper's
    searched = column if column in (BEST, REACHABLE) else FAITHFUL
    try:
        config = chosen_config(graph, row.method, searched, row.embedding, column == OWN)
    except InputError:
        return None
    if row.method == "rap" and (column in (FAITHFUL, REACHABLE) or (column == BEST and config.inference == "sample")):
        config = config.update(inference="sample", keep_draw=True)  # the draw that was best on validation
    if column == OF_LAYER and chosen_config(graph, "rap", FAITHFUL).embedding != row.embedding:
        return None  # it stands beside RAP-GNN with the same embedding
    config = config.update(**row.changes)
    return None if column == EXPECTATION and _signed(config) else config


def _configured(method: str) -> bool:
    return method != ESTIMATOR and METHODS[method].configured


def _cell(graph: Graph, row: Row, column: str, config: Config, scale: Scale) -> Cell:
    config, said = cut(graph, row.method, config, scale)
    labels: Record = {"column": column, "title": row.title} | ({"cut": said} if said else {})
    paper = row.paper(graph.name)
    if paper is not None and paper.mean is not None and paper.std is not None:
        factor = 1 if paper.metric == "rmse" else 100
        labels |= {"paper_mean": paper.mean / factor, "paper_std": paper.std / factor}
    if graph.folds:  # of an estimator by the strict protocol
        return accuracy_cell(graph.name, row.method, config, FOLD_SEEDS, labels, row.protocol, scale.folds)
    seeds = scale.seeds[:1] if row.method == ESTIMATOR and scale.quick else scale.seeds
    return accuracy_cell(graph.name, row.method, config, seeds, labels, every=scale.every(graph))


# What a quick run leaves out: epochs, most of those that walk through the graph, and most of many graphs.


def walks(method: str, config: Config) -> bool:
    """Whether every epoch goes through the graph, because the shortcut cannot be taken."""
    chosen, kind = METHODS[method].configure(config), EMBEDDINGS[config.embedding]
    if METHODS[method].trained:
        return True
    linear = chosen.activation == "identity"
    if kind.trained == "with":
        return not (linear and chosen.embedding_output == "none" and chosen.embedding_layers == 1)
    if kind.redrawn or chosen.random_features or chosen.layer_dropout:
        return True
    if chosen.schedule == "fixed" or chosen.structure == "identity" or method == "pretrained-embedding":
        return False
    return chosen.structure == "full" or (_signed(chosen) and not linear)


def _signed(config: Config) -> bool:
    """Whether h⁰ has negative entries, so that there is no exact expectation behind a ReLU."""
    return config.embedding_output == "none" and EMBEDDINGS[config.embedding].mlp


def cut(graph: Graph, method: str, config: Config, scale: Scale) -> tuple[Config, str]:
    """The settings of a quick run, and what was cut in words; unchanged in a full run, and where there is no epoch."""
    if not scale.quick:
        return config, ""
    every, epochs, before = scale.every(graph), config.epochs, config.pretrain_epochs
    if _configured(method):
        trained = METHODS[method].trained
        if method != "pretrained-embedding" and (trained or config.head != "ridge"):  # a solved head has no epochs
            epochs = min(epochs, scale.caps["walked" if walks(method, config) else "stored"])
        if not trained and EMBEDDINGS[config.embedding].trained == "before":
            before = min(before, scale.caps["pretrained"])
    said = [f"{epochs} of {config.epochs} epochs"] if epochs < config.epochs else []
    said += [f"{before} of {config.pretrain_epochs} of phase 1"] if before < config.pretrain_epochs else []
    said += [f"every {every}th graph of training and validation"] if every > 1 else []
    return config.update(epochs=epochs, pretrain_epochs=before), ", ".join(said)


# In Markdown: a table per dataset, ours beside the paper's, and below what was measured.

NOT_SEARCHED, NO_EXACT_FORM = "not searched", "no exact form"
ABSENT: dict[str | None, str] = {EXPECTATION: NO_EXACT_FORM, OF_LAYER: NONE}  # although the method was searched
UNITS = {"accuracy": "accuracy, %", "rocauc": "ROC-AUC, %", "rmse": "RMSE, lower is better"}


NOTES: dict[str, str] = packaged("paper/notes.toml")


def note(name: str, **values: object) -> str:
    """A paragraph of ``notes.toml``, with these values in it."""
    return NOTES[name].format(**values)


def write_line(row: Row, records: Mapping[str, Record], paper: Published | None, searched: bool) -> dict[str, str]:
    """What every column says of a row on one dataset, by its records; ``searched``: in the paper's ranges."""
    ours = records.get(row.column or FAITHFUL)
    faithful = ABSENT.get(row.column if searched else None, NOT_SEARCHED) if ours is None else format_figure(ours)
    best = format_figure(records.get(BEST)) if BEST in records or row.method == ESTIMATOR else NOT_SEARCHED
    if BEST not in row.columns((FAITHFUL, BEST)):
        best = "" if row.column else NONE
    return {
        "faithful": "" if row.method == ESTIMATOR else faithful,
        "accuracy": faithful,
        "best": best,
        "reachable": format_figure(records[REACHABLE]) if REACHABLE in records else "",
        "strict": NONE if ours is None else format_figure(ours, "strict_"),
        "paper": results.format_published(paper),
        "difference": _difference(row, ours, paper),
    }


def _difference(row: Row, ours: Record | None, paper: Published | None) -> str:
    """Ours minus the paper's, in points or in the metric's unit; of reservoir systems by the strict protocol."""
    if ours is None or ours["mean"] is None or paper is None or paper.mean is None:
        return NONE
    mean = ours["mean"]
    if row.method in RESERVOIRS and ours.get("strict_mean") is not None:
        mean = ours["strict_mean"]
    if paper.metric == "rmse":
        return f"{mean - paper.mean:+.3f}"
    return f"{100 * mean - paper.mean:+.{1 if paper.table in results.ONE_DIGIT else 2}f}"


def show_datasets(
    records: Sequence[Record],
    rows: Sequence[Row],
    datasets: Sequence[str],
    columns: Sequence[str] = ("faithful", "best", "reachable", "paper", "difference"),
) -> str:
    """A table for each dataset; without the column that no record is of, where it is the reachable one."""
    if all(r["column"] != REACHABLE for r in records):
        columns = [name for name in columns if name != REACHABLE]
    parts = []
    for dataset in datasets:
        there = [r for r in records if r["dataset"] == dataset]
        searched = {r["method"] for r in there if r["column"] == FAITHFUL}
        body = []
        for row in rows:
            mine = {r["column"]: r for r in there if r["title"] == row.title}
            line = write_line(row, mine, row.paper(dataset), row.method in searched)
            body.append([bold(row.title, row.title == "RAP-GNN"), *(line[name] for name in columns)])
        unit = f" ({UNITS[there[0]['metric']]})" if there else ""
        parts.append(f"## {title_of(dataset)}{unit}\n\n{format_table(['', *columns], body)}")
    if any(NO_EXACT_FORM in part for part in parts):
        parts.append(note("signed"))
    if REACHABLE in columns:
        parts.append(note("reachable"))
    return "\n\n".join(parts)


def bold(title: str, yes: bool) -> str:
    """A title, in bold where it is the paper's own method."""
    return f"**{title}**" if yes else title


def by_place(
    records: Sequence[Record],
    key: str,
    places: Mapping[int, str],
    titles: Mapping[str, str],
    write: Callable[[Record], str],
) -> str:
    """A row per method, a column per depth or layer: the field ``key``, and what it is called."""
    rows = []
    for method, title in titles.items():
        mine = {r[key]: write(r) for r in records if r["method"] == method}
        if mine:
            rows.append([bold(title, method == "rap"), *(mine.get(place, NONE) for place in places)])
    return format_table(["", *places.values()], rows) if rows else ""


def show_seeds(records: Sequence[Record], rows: Sequence[Row], datasets: Sequence[str], *notes: str) -> str:
    """The tables of datasets with a fixed split, and below them what the columns mean, notes, and what was cut."""
    return below(
        show_datasets(records, rows, datasets),
        f"{note('settings')} {spread(records)}",
        *notes,
        show_cuts(records, "2 seeds instead of 5"),
    )


def spread(records: Sequence[Record]) -> str:
    if not records:
        return ""
    folds = [len(r["values"]) for r in records if "fold," in r["protocol"]]
    over = f"{max(folds)} folds" if folds else f"{max(len(r['seeds']) for r in records)} seeds"
    return f"±: standard deviation over {over}."


def show_cuts(records: Sequence[Record], usual: str) -> str:
    """What a quick run left out; ``usual``: of seeds or folds, in words."""
    if not any(r.get("quick") for r in records):
        return ""
    cuts = dict.fromkeys(r["cut"] for r in records if "cut" in r)
    return f"Quick run, cut: {'; '.join([usual, *cuts])}."


def below(*notes: str) -> str:
    return "\n\n".join(note for note in notes if note)
