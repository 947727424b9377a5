"""The sizes of a graph that is still in tables, without converting it: by the files' sizes and first rows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rapgnn.datasets.columns import ID, Reading, Roles, find_labels
from rapgnn.datasets.dialect import find_dialect
from rapgnn.datasets.edges import edge_table
from rapgnn.datasets.folder import ignoring
from rapgnn.datasets.frames import Frame, checked
from rapgnn.errors import InputError
from rapgnn.graph.labels import label_column
from rapgnn.graph.table import Encoding
from rapgnn.memory import show_size
from rapgnn.scale.plan.layouts import TITLES, Cost, Machines, Problem, best
from rapgnn.scale.tables.database import NEEDED, Sources

FIRST = 2000  # rows that are looked at
ESTIMATED = "the sizes are estimated from the tables' first rows; those of a graph on disk are exact."
PACKED = 4.0  # how much larger a .gz file of text is unpacked


def estimated_problem(sources: Sources, reading: Reading, layers: int) -> Problem:
    """About what the graph of these files will be."""
    frames = {stem: _first(getattr(sources, stem), reading) for stem in ("nodes", "edges")}
    rows = {stem: _rows(getattr(sources, stem), frame) for stem, frame in frames.items()}
    _, frames = ignoring(sources.folder, reading, frames)
    nodes, edges = frames["nodes"], edge_table(frames["edges"], reading)
    roles: Roles = {}
    labels = find_labels(nodes, reading, roles)
    named = nodes.take(*reading.named("id", ID))
    roles |= {} if named is None else {named[0]: "id"}
    if sources.features is not None:
        shape = np.load(sources.features, mmap_mode="r", allow_pickle=False).shape
        width = shape[1] if len(shape) > 1 else 1
    else:
        width = Encoding.learn(nodes.without(list(roles)), impute=True).width or 0
    wanted = [labels.splits[split] for split in ("train", "val") if split in labels.splits]
    kept = sum(map(len, wanted)) if wanted else 0.8 * _known(labels.values)
    share = kept / max(1, len(nodes.table))
    m = rows["edges"] * (1 if reading.directed else 2)
    return Problem(
        max(1, rows["nodes"]), m, max(1, width), layers, round(share * rows["nodes"]), edges.weight is not None
    )


def _known(values: Any) -> int:
    if isinstance(values, np.ndarray):
        return int((~np.isnan(values)).any(axis=1).sum())
    return int(label_column(values).notna().sum())


def _first(files: Sequence[Path], reading: Reading) -> Frame:
    """The first rows of a table."""
    path = files[0]
    try:
        if path.suffix == ".parquet":
            from pyarrow.parquet import ParquetFile

            file = ParquetFile(path)
            batch = next(file.iter_batches(FIRST), None)
            table = file.schema_arrow.empty_table().to_pandas() if batch is None else batch.to_pandas()
        else:
            form = find_dialect(path, reading.options)
            text: Any = {"sep": form.sep, "decimal": form.decimal, "encoding": form.encoding, "skiprows": form.skip}
            table = pd.read_csv(path, nrows=FIRST, index_col=False, **text)
    except ImportError as error:
        raise InputError(NEEDED) from error
    except InputError:
        raise
    except Exception as error:  # pandas and pyarrow have no common base for what a broken file raises
        raise InputError(f"cannot read {path}: it is damaged, or not a table.") from error
    return checked(Frame(path, table))


def _rows(files: Sequence[Path], first: Frame) -> int:
    """About how many rows the files have: Parquet says it, of text the first rows tell how long one is."""
    if files[0].suffix == ".parquet":
        from pyarrow.parquet import ParquetFile

        return sum(ParquetFile(path).metadata.num_rows for path in files)
    length = len(first.table.to_csv(index=False)) / max(1, len(first.table))
    size = sum(path.stat().st_size * (PACKED if path.suffix == ".gz" else 1.0) for path in files)
    return len(first.table) if len(first.table) < FIRST else round(size / length)


# A plan for people: a table of layouts, and what to type.


COMMANDS = {
    "memory": "rapgnn fit FOLDER --out model",
    "disk": "rapgnn fit FOLDER --memory {memory} --out model",
    "ray": "rapgnn fit FOLDER --cluster auto --out model, or rapgnn.scale.ray_hops.hops_on_ray(..., width={width})",
    "rows": "torchrun --nnodes {machines} -m rapgnn fit FOLDER --store hops --out model",
}


def show_seconds(seconds: float) -> str:
    """A time for people."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"


def plan_rows(found: list[Cost]) -> list[dict[str, str]]:
    """One row per layout, words by column."""
    return [
        {
            "layout": TITLES[cost.layout],
            "machines": str(cost.machines),
            "memory per machine": show_size(cost.memory) + ("" if cost.fits else " (too much)"),
            "columns per block": f"{cost.width} in {cost.blocks} block{'s' * (cost.blocks != 1)}",
            "read": show_size(cost.read),
            "moved": show_size(cost.moved) if cost.moved else "-",
            "kept": show_size(cost.kept),
            "time": show_seconds(cost.total),
        }
        for cost in found
    ]


def advice(found: list[Cost], machines: Machines) -> str:
    """Which layout to take, in a sentence."""
    chosen = best(found)
    if chosen is None:
        least = min(found, key=lambda cost: cost.memory)
        return (
            f"no layout fits into {show_size(machines.memory)}: {TITLES[least.layout]} needs the least, "
            f"{show_size(least.memory)} per machine."
        )
    command = COMMANDS[chosen.layout].format(
        memory=show_size(machines.memory), width=chosen.width, machines=chosen.machines
    )
    return f"take {TITLES[chosen.layout]}, {show_seconds(chosen.total)}: {command}"


def sizes(problem: Problem) -> str:
    """The problem in a sentence."""
    return (
        f"{problem.nodes:,} nodes, {problem.edges:,} edges, {problem.features} features, {problem.layers} layers, "
        f"hops of {problem.rows:,} rows kept"
    )
