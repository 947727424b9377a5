"""Links on the command line: ``rapgnn fit --links``, and ``predict``, ``evaluate`` and ``report`` of such a model."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from rapgnn.cli import shared
from rapgnn.errors import InputError

PairsOption = Annotated[Path | None, typer.Option("--pairs", help="Links: a table of source and target.")]
OTHERS = ("label", "group", "time", "table", "task")  # options of tables that links have not, or that ``fit`` takes


def is_model(folder: Path) -> bool:
    """Whether a folder holds a model of links."""
    from rapgnn.training.checkpoint import saved_task

    return saved_task(folder).startswith("link-")


def refuse(options: dict[str, Any], why: str) -> None:
    """Refuse options that were given and are for something else."""
    for name, value in options.items():
        if value:
            raise InputError(f"--{name.replace('_', '-')} is {why}: leave it out.")


def fit(
    data: str | None,
    reading: Any,
    relation: str | None,
    data_dir: Path | None,
    out: Path,
    search: bool,
    seed: int,
    report: Path | None,
    json_file: Path | None,
) -> None:
    """Train on the links of a graph, save the model, and print its scores."""
    from rapgnn.estimators.links import RAPLinkPredictor
    from rapgnn.report.links import write_link_report
    from rapgnn.training.checkpoint import check_target

    if check_target(out):
        shared.say(f"replaces the model in {out}")
    refuse({name: getattr(reading, name) for name in OTHERS if name != "time"}, "not for --links")
    named = None if relation is None else tuple(relation.split(","))
    if named is not None and len(named) != 3:
        raise InputError(f"--relation is source,name,target, such as user,buys,item: got {relation}.")
    given = shared.given_of(reading, data_dir, OTHERS)
    estimator = RAPLinkPredictor(relation=named, search=search, seed=seed)
    with shared.show_progress() as track:
        track.start("links", None)
        estimator.fit(data, time=reading.time, **given)
    estimator.save(out)
    record = {"model": str(out), "config": estimator.model_.config.to_dict(), "trials": estimator.trials_}
    record = score(estimator, None, {}) | record | {"validation_score": estimator.validation_score_}
    shared.write_json([record], json_file)
    shared.tell(f"saved {out}")
    show(record)
    if report is not None:
        write_link_report(estimator, report, None, {})
        shared.tell(f"wrote {report}")
    named = shared.given(data, reading)
    shared.tell(f"next: rapgnn predict {out} {named} --top 10 --out recommendations.csv")
    shared.tell(f"      rapgnn predict {out} {named} --pairs pairs.csv --out predictions.csv")


def read_labelled(data: str | None, column: str, reading: Any, data_dir: Path | None, seed: int) -> Any:
    """The edges as rows with the labels of a column; what had to be decided on the way is said."""
    from rapgnn.estimators.edges import read_edges

    given = shared.given_of(reading, data_dir, ("label", "task", "table")) | {"seed": seed}
    edges = read_edges(data, column, given, reading.task)
    for note in edges.graph.notes:
        shared.say(note)
    return edges


def score(estimator: Any, data: Any, given: dict[str, Any], pairs: Path | None = None) -> dict[str, Any]:
    """The record of a model's scores; on links of its own choice beside those of simple rivals."""
    from rapgnn.pairs.measures import against_others
    from rapgnn.pairs.rivals import RIVALS

    graph, _ = estimator.on_graph(data, given)
    record: dict[str, Any] = {"dataset": graph.name, "task": estimator.schema_.task, "metric": "rocauc"}
    if pairs is not None:
        asked, y = read_pairs(pairs)
        found = estimator.evaluate(asked, y, data, **given)
        return record | {"scored_split": "given", "scored_rows": len(asked), "score": found["rocauc"]} | found
    split, on, links = estimator.hidden(data, **given)
    found = estimator.evaluate(data=data, **given)
    record |= {"scored_split": split, "scored_rows": len(links), "score": found["rocauc"]}
    for name in ("common neighbours", "popularity"):
        scores = RIVALS[name](on.links, None, 0).scores
        record[name.replace(" ", "_")] = against_others(scores, on.links, links, estimator.model_.seed)["rocauc"]
    return record | found


def show(record: dict[str, Any], tell: Callable[[str], None] = shared.tell) -> None:
    """A few lines of at most 80 columns."""
    from rapgnn.pairs.measures import TITLES

    tell(f"on {record['scored_rows']} links ({record['scored_split']}) that the model was not trained on:")
    for name, title in TITLES.items():
        if name in record:
            tell(f"  {title:<44}{100 * record[name]:>8.2f} %")
    for name in ("common_neighbours", "popularity"):
        if name in record:
            tell(f"  {'ROC-AUC of ' + name.replace('_', ' '):<44}{100 * record[name]:>8.2f} %")


def read_pairs(path: Path) -> tuple[Any, Any]:
    """The two columns of ids, and the labels where there is a column ``label`` of 0 and 1."""
    from rapgnn.datasets.columns import LABEL, SOURCE, TARGET
    from rapgnn.datasets.frames import read_file

    frame = read_file(path, (*SOURCE, *TARGET))
    ends, label = [frame.take(*names) for names in (SOURCE, TARGET)], frame.take(*LABEL)
    columns = [end[0] for end in ends if end is not None]
    if len(columns) < 2:
        raise InputError(f"{path} must have the columns source and target; it has {frame.names}.")
    if frame.table.empty:
        raise InputError(f"{path} holds no pairs: give a row for each.")
    return frame.table[columns], None if label is None else label[1].to_numpy()


def open_model(model: Path, data: str | None, data_dir: Path | None, reading: Any) -> tuple[Any, dict[str, Any]]:
    """The estimator, and what goes with the data."""
    from rapgnn.estimators.links import RAPLinkPredictor

    return RAPLinkPredictor.load(model), shared.given_of(reading, data_dir, OTHERS)


def predict(
    model: Path,
    data: str | None,
    reading: Any,
    data_dir: Path | None,
    out: Path,
    pairs: Path | None,
    top: int | None,
    json_file: Path | None,
) -> None:
    """Probabilities of pairs, or recommendations for every node."""
    from rapgnn.estimators.table import write_table
    from rapgnn.graph.validate import check_whole

    if (pairs is None) == (top is None):
        raise InputError("a model of links predicts --pairs FILE, or recommends with --top 10: give one of them.")
    if top is not None:
        check_whole("--top", top, 1, 1 << 20)
    estimator, given = open_model(model, data, data_dir, reading)
    with shared.show_progress() as track:
        track.start("links", None)
        graph, on = estimator.on_graph(data, given)
        if pairs is not None:
            asked, _ = read_pairs(pairs)
            numbers = estimator.numbers(asked, graph)
            known = on.links.contains(numbers).numpy()
            table = asked.assign(probability=on.probabilities(numbers).numpy())
            table["known"] = ["yes" if link else "no" for link in known]
        else:
            table = estimator.recommend(None, top, data, **given)
    write_table(table, out)
    record = {"dataset": graph.name, "task": estimator.schema_.task, "model": str(model), "out": str(out)}
    shared.write_json([record | {"rows": len(table)}], json_file)
    shared.tell(f"wrote {len(table)} {'predictions' if pairs else 'recommendations'} to {out}")


def evaluate(
    model: Path, data: str | None, reading: Any, data_dir: Path | None, pairs: Path | None, json_file: Path | None
) -> None:
    """Score a model of links on given pairs, or on links that the data's splits or the fit set apart."""
    estimator, given = open_model(model, data, data_dir, reading)
    record = score(estimator, data, given, pairs) | {"model": str(model)}
    shared.write_json([record], json_file)
    show(record, typer.echo)


def report(model: Path, data: str | None, reading: Any, data_dir: Path | None, out: Path) -> None:
    """Write the page about a model of links."""
    from rapgnn.report.links import write_link_report

    estimator, given = open_model(model, data, data_dir, reading)
    with shared.show_progress() as track:
        track.start("report", None)
        write_link_report(estimator, out, data, given, lambda done, total, title: track.set(done, f"report: {title}"))
    shared.tell(f"wrote {out} ({out.stat().st_size / 1e6:.1f} MB)")
