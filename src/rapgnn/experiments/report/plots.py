"""The figures of the page: time, memory and accuracy by depth, memory by graph, the networks' inside, large graphs."""

from collections.abc import Callable, Sequence

from rapgnn.experiments.reproduce.figures.collapse import STRATEGIES
from rapgnn.experiments.reproduce.tables import DATASETS
from rapgnn.experiments.reproduce.timed import TITLES
from rapgnn.experiments.run import Record
from rapgnn.report import plots
from rapgnn.report.parts import Cell, Figure, Panel, Table

NAMES = {**TITLES, **{name: strategy.title for name, strategy in STRATEGIES.items() if name not in TITLES}}
_FIRST = ("rap", "end-to-end", "rap-stepwise", "random-full", "fixed-full", "end-to-end-pyg", "fixed-diagonal")
PLACES = {method: at for at, method in enumerate(dict.fromkeys((*_FIRST, *NAMES)))}
"""Method -> the number of its colour, the same in all plots."""
BY_DEPTH = {
    "train_ms_per_epoch": ("Training epoch", "ms"),
    "infer_ms": ("Inference, all that can be kept prepared", "ms"),
    "infer_all_ms": ("Inference of all nodes, from the graph on", "ms"),
    "peak_memory_mb": ("Peak memory of training", "MB"),
}
BY_LAYER = {
    "rank": ("Rank", "rank"),
    "effective_rank": ("Effective rank", "effective rank"),
    "variance": ("Mean variance", "variance"),
}


def _title(record: Record) -> str:
    return str(record.get("title") or NAMES.get(record["method"], record["method"]))


def depth(records: list[Record]) -> list[Figure]:
    """Times and memory by the number of layers; accuracy on a linear axis of its own."""
    times = [r for r in records if r["kind"] == "time"]
    scored = [r | {"num_layers": r["config"]["num_layers"]} for r in records if r["kind"] == "accuracy"]
    found = []
    if times:
        panels = [_by(times, key, "num_layers", "layers", *said) for key, said in BY_DEPTH.items()]
        header = ["", "layers", *(f"{title}, {unit}" for title, unit in BY_DEPTH.values())]
        rows = [
            [Cell(_title(r)), Cell(str(r["num_layers"])), *(Cell(_number(r.get(key))) for key in BY_DEPTH)]
            for r in times
        ]
        found.append(Figure("depth-costs", panels, log=True, table=Table(header, rows, "Time and memory by depth")))
    if scored:
        found.append(Figure("depth-accuracy", [_accuracy(scored)]))
    return found


def _by(records: Sequence[Record], key: str, x: str, x_title: str, title: str, unit: str) -> Panel:
    """A line per strategy."""
    series, places, ends = {}, {}, []
    for method in dict.fromkeys(r["method"] for r in records):
        mine = sorted((r for r in records if r["method"] == method and r.get(key)), key=lambda r: r[x])
        if mine:
            name = _title(mine[0])
            series[name], places[name] = ([r[x] for r in mine], [r[key] for r in mine]), PLACES.get(method, 0)
            ends.append(f"{name} {_number(mine[-1][key])}")
    last = max((xs[-1] for xs, _ in series.values()), default=0)
    ticks = sorted({x for xs, _ in series.values() for x in xs})
    axis = {"type": "log", "tickvals": ticks} if x == "num_layers" else {}
    hover = f"%{{fullData.name}}<br>%{{x}} {x_title}: %{{y:,.4~g}} {unit}<extra></extra>"
    drawn = plots.lines(
        series,
        x_title,
        unit,
        places=places,
        hover=hover,
        xaxis=axis,
        yaxis=plots.log_axis([v for _, ys in series.values() for v in ys]),
    )
    return Panel(
        drawn, f"{title} ({unit})" if unit in ("ms", "MB") else title, f"At {last} {x_title}: {', '.join(ends)}."
    )


def _accuracy(scored: list[Record]) -> Panel:
    series, errors, places, ends = {}, {}, {}, []
    for method in dict.fromkeys(r["method"] for r in scored):
        mine = sorted(
            (r for r in scored if r["method"] == method and r["mean"] is not None), key=lambda r: r["num_layers"]
        )
        if mine:
            name = _title(mine[0])
            series[name] = ([r["num_layers"] for r in mine], [100 * r["mean"] for r in mine])
            errors[name], places[name] = [100 * r["std"] for r in mine], PLACES.get(method, 0)
            ends.append(f"{name} {100 * mine[-1]['mean']:.1f}")
    ticks = sorted({x for xs, _ in series.values() for x in xs})
    drawn = plots.lines(
        series,
        "layers",
        "test accuracy (%)",
        errors=errors,
        places=places,
        hover="%{fullData.name}<br>%{x} layers: %{y:.2f} %<extra></extra>",
        xaxis={"type": "log", "tickvals": ticks},
    )
    return Panel(drawn, "Accuracy on the test nodes (%)", f"At {ticks[-1]} layers: {', '.join(ends)}.")


def memory(records: list[Record]) -> list[Figure]:
    """Bars, a panel per graph."""
    panels = []
    for name in dict.fromkeys(r["dataset"] for r in records):
        mine = [r for r in records if r["dataset"] == name and r.get("peak_memory_mb")]
        if not mine:
            continue
        values = [r["peak_memory_mb"] for r in mine]
        drawn = plots.bars([_title(r) for r in mine], values, "MB", texts=[_number(v) for v in values])
        drawn.update_layout(xaxis=plots.log_axis(values), meta="log-x")
        said = ", ".join(f"{_title(r)} {_number(r['peak_memory_mb'])} MB" for r in mine)
        layers = f"{mine[0]['num_layers']} layers, {mine[0]['hidden_channels']} channels"
        panels.append(Panel(drawn, f"{DATASETS.get(name, name)}, {layers}", f"Peak memory of training: {said}."))
    return [Figure("memory-bars", panels, log=True)] if panels else []


def collapse(records: list[Record]) -> list[Figure]:
    """Rank and variance by layer."""
    panels = [_by(records, key, "layer", "layer", *said) for key, said in BY_LAYER.items()]
    return [Figure("collapse-layers", panels, log=True)]


def weights(records: list[Record]) -> list[Figure]:
    """The matrices as colours; their entries come in 255 levels, and go into the page as these."""
    panels = []
    for r in records:
        packed, d = r["matrix"], r["matrix"]["shape"][0]
        levels = {"dtype": "i1", "bdata": packed["levels"], "shape": f"{d}, {packed['shape'][1]}"}
        drawn = plots.heat(
            None,
            (),
            "to channel",
            "from channel",
            scale=plots.SIGNED,
            hover=f"from %{{y}} to %{{x}}: %{{z}} × {packed['step']:.3g}<extra></extra>",
        )
        drawn.update_traces(z=levels, x=None, y=None, zmid=0, overwrite=False)
        drawn.update_layout(
            xaxis={"type": "linear", "constrain": "domain"}, yaxis={"type": "linear", "scaleanchor": "x"}
        )
        share, chance = 100 * r["diagonal_share"], 100 * r["random_diagonal_share"]
        said = f"{share:.2f} % of the squares lie on the diagonal, {chance:.2f} % would by chance."
        panels.append(Panel(drawn, _title(r), said))
    return [Figure("weights-matrices", panels)]


def large(records: list[Record]) -> list[Figure]:
    """Times of every strategy, ours and the paper's, a panel per graph and backbone."""
    times = [r for r in records if r["kind"] == "time"]
    panels = []
    for dataset, backbone in dict.fromkeys((r["dataset"], r["backbone"]) for r in times):
        mine = [r for r in times if (r["dataset"], r["backbone"]) == (dataset, backbone)]
        series = {
            name: ([r[key] for r in mine if r.get(key)], [_title(r) for r in mine if r.get(key)])
            for key, name in _TIMES.items()
        }
        hover = "%{y}<br>%{fullData.name}: %{x:,.4~g} ms<extra></extra>"
        axis = {
            "autorange": "reversed",
            "title": None,
            "categoryorder": "array",
            "categoryarray": [_title(r) for r in mine],
        }
        drawn = plots.lines(
            {k: v for k, v in series.items() if v[0]},
            "ms",
            "",
            hover=hover,
            xaxis=plots.log_axis([v for xs, _ in series.values() for v in xs]),
            yaxis=axis,
        )
        drawn.update_traces(mode="markers")
        drawn.update_layout(meta="log-x", height=420)
        ours = ", ".join(f"{_title(r)} {_number(r.get('train_ms_per_epoch'))} ms" for r in mine)
        panels.append(Panel(drawn, f"{dataset}, {backbone}", f"Our training epoch: {ours}."))
    return [Figure("large-times", panels, log=True)] if panels else []


_TIMES = {
    "train_ms_per_epoch": "training epoch, ours",
    "paper_train_ms": "training epoch, paper (RTX 4090)",
    "infer_all_ms": "evaluation, ours",
    "paper_eval_ms": "evaluation, paper (RTX 4090)",
}


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


FIGURES: dict[str, Callable[[list[Record]], list[Figure]]] = {
    "depth": depth,
    "memory": memory,
    "collapse": collapse,
    "weights": weights,
    "large": large,
}
"""Item -> its figures."""
