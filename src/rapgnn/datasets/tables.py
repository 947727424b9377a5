"""Tables of nodes and edges, and of graphs where there are many -> ``Graph``, whatever held the tables.

A folder of files, DataFrames (of pandas, or of anything that has ``to_pandas``), and graphs of networkx or igraph with
their attributes as columns are all read here.

``nodes``: ``id`` (any type; without it rows are numbered), features (all other columns, or the array in
``features.npy``, a row per row of ``nodes``), ``label``, ``split``.
``edges``: ``source``, ``target``, optionally ``weight``. With ``graphs`` (``id``, ``label``, ``split``) there are many
graphs; nodes, and edges where node ids repeat, then have a column ``graph``. Edges alone are a graph without features
and labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from rapgnn.datasets.columns import (
    GRAPH,
    GRAPH_ID,
    ID,
    LABEL,
    NO_IDS,
    OPTIONS,
    SOURCE,
    TARGET,
    WEIGHT,
    Given,
    Labels,
    Reading,
    Roles,
    check_classes,
    column_uses,
    dialect_notes,
    find_labels,
    learn_features,
    learn_table,
    named_options,
    refuse_empty,
    row_ids,
    row_of,
    times_of,
)
from rapgnn.datasets.frames import ENDINGS, FEATURES, Frame, as_numbers, checked, feature_array, read_file
from rapgnn.errors import InputError, shown
from rapgnn.graph.convert import RawGraph, as_table, both_ways, is_network
from rapgnn.graph.graph import Graph, build_graph
from rapgnn.graph.table import Encoding
from rapgnn.graph.validate import SPLITS, Faults, check_edge_weight

CURE = "add it, or leave such edges out (`drop_unknown_edges=True`)"
FOR_MANY = "edge features are for many graphs"


@dataclass(frozen=True)
class EdgeTable:
    """The columns of the edges: both ends, a weight where there is one, the edge's graph likewise, and what is left.

    Args:
        ends: node numbers ``[2, m]``, where they are known; -1 where there is no such node.
    """

    frame: Frame
    source: pd.Series
    target: pd.Series
    weight: np.ndarray | None
    further: list[str]
    roles: Roles
    ends: Any = None

    def times(self, name: str) -> np.ndarray:
        """A column of numbers or dates, as numbers."""
        if name not in self.frame.table:
            raise InputError(f"{self.frame.path} has no column {shown(name)}; it has {self.frame.names}.")
        values = pd.Series(self.frame.table[name])
        refuse_empty(self.frame.path, name, values)
        return times_of(self.frame, name, values)


def edge_table(edges: Frame, reading: Reading) -> EdgeTable:
    """Which column of the edges is what."""
    faults, roles = Faults(), Roles()
    ends: list[tuple[str, pd.Series]] = []
    for role, usual in (("source", SOURCE), ("target", TARGET)):
        with faults.collect():
            ends.append(edges.need(*reading.named(role, usual), cure=f": `{role}` names another"))
            roles[ends[-1][0]] = role
    values, weight, graph = None, edges.take(*WEIGHT), edges.take(*GRAPH)
    with faults.collect():
        if weight is not None:
            roles[weight[0]] = "weight"
            if not pd.api.types.is_numeric_dtype(weight[1]) or pd.api.types.is_complex_dtype(weight[1]):
                raise InputError(f"{edges.path}: {weight[0]} must be numbers: correct it, or leave it out (`ignore`).")
            values = weight[1].to_numpy(dtype=np.float64, na_value=np.nan)
    if graph is not None:
        roles[graph[0]] = "graph"
    faults.check()
    further = [c for c in edges.table.columns if c not in roles]
    return EdgeTable(edges, ends[0][1], ends[1][1], values, further, roles)


def places(frame: Frame, values: pd.Series, ids: pd.Index, named: Frame) -> tuple[np.ndarray, list[str]]:
    """The row number of each named row, -1 where there is none; and, for a sentence, the first that is not there."""
    refuse_empty(frame.path, str(values.name), values)
    try:
        place = row_of(values, ids)
    except pd.errors.InvalidIndexError:
        raise InputError(f"{named.path}: two ids read the same as words.") from None
    unknown = np.flatnonzero(place < 0)
    return place, [unknown_end(str(values.name), values.iloc[row], int(row), len(unknown)) for row in unknown[:1]]


def unknown_end(name: str, value: Any, row: int, count: int) -> str:
    """An end that is no node, for a sentence: its first edge, and how many there are."""
    word = shown(str(value))[1:-1]
    return f"{name} {word} (row {row}; {count} such)"


def unknown_ends(path: Path, unknown: list[str], nodes: Path, numbered: bool) -> InputError:
    """What is said where ends of edges are no nodes.

    Args:
        unknown: what ``unknown_end`` says, once or for both ends.
        numbered: no column names the nodes, which may be why.
    """
    nor = f", nor {unknown[1]}" if len(unknown) > 1 else ""
    cure = "rows are numbered from 0 there, `id` names a column of ids" if numbered else CURE
    return InputError(f"{path}: {unknown[0]} is not in {nodes.name}{nor}: {cure}.")


def dropped_edges(count: int, total: int) -> str:
    """What is noted where edges of unknown nodes were left out."""
    return f"{count} of {total} edges name unknown nodes and were dropped."


def ends_of(
    edges: EdgeTable,
    ids: pd.Index,
    nodes: Frame,
    drop: bool,
    numbered: bool = False,
    home: np.ndarray | None = None,
    graph_ids: Any = None,
    graphs: Any = None,
) -> np.ndarray:
    """``[2, m]``: the row in ``nodes`` of both ends of every edge, -1 where it is to be dropped.

    Args:
        numbered: no column names the nodes, which may be why an edge's ends are not there.
        home: where there are many graphs, the graph of each node; node ids may repeat from graph to graph.
        graph_ids, graphs: what the graphs are called, and their table.
    """
    path, names, which, keys = edges.frame.path, ids, None, pd.Index([])
    column = None if home is None else edges.frame.take(*GRAPH)
    if home is not None and column is None and not ids.is_unique:
        raise InputError(f"{path} needs a column graph, because node ids repeat from graph to graph.")
    if home is not None and column is not None:
        which, lost = places(edges.frame, column[1], graph_ids, graphs)
        if lost and not drop:
            raise InputError(f"{path}: {lost[0]} is not in {graphs.path.name}.")
        codes, distinct = pd.factorize(ids)
        names, keys = pd.Index(distinct), pd.Index(home * len(distinct) + codes)
        if not keys.is_unique:
            row = int(keys.duplicated().argmax())
            raise InputError(f"{nodes.path}: node {ids[row]} occurs more than once in graph {graph_ids[home[row]]}.")
    faults, ends, unknown = Faults(), list[np.ndarray](), list[str]()
    for values in (edges.source, edges.target):
        with faults.collect():
            place, missing = places(edges.frame, values, names, nodes)
            ends.append(place)
            unknown += missing
    with faults.collect():
        if unknown and not drop:
            raise unknown_ends(path, unknown, nodes.path, numbered)
    faults.check()
    if which is None:
        return np.stack(ends)
    known = (which >= 0) & (np.stack(ends) >= 0)
    ends = np.where(known, [keys.get_indexer(pd.Index(which * len(names) + end)) for end in ends], -1)
    if (ends < 0).any() and not drop:
        side, row = np.argwhere(ends < 0)[0]
        name = (edges.source, edges.target)[side].iloc[row]
        raise InputError(f"{path}: row {row} names node {name}, which its graph does not have: {CURE}.")
    return ends


def ignoring(reading: Reading, frames: dict[str, Frame]) -> tuple[Reading, dict[str, Frame]]:
    """The tables without the columns that the user leaves out."""
    given = [reading.ignore] if isinstance(reading.ignore, str) else list(reading.ignore)
    there = {str(column) for frame in frames.values() for column in frame.table.columns}
    names = [part for item in given for part in ([item] if item in there else [p.strip() for p in item.split(",")])]
    names = [name for name in names if name]
    absent = [name for name in names if name not in there]
    if absent:
        raise InputError(f"there is no column {', '.join(map(repr, absent))} to ignore.")
    return replace(reading, ignore=tuple(names)), {stem: frame.ignoring(names) for stem, frame in frames.items()}


def _named_nodes(edges: EdgeTable) -> Frame:
    """The nodes that the edges name, in order."""
    ends = pd.concat([edges.source, edges.target], ignore_index=True).dropna()
    ids = pd.unique(ends)
    if pd.api.types.is_numeric_dtype(ends):
        ids = np.sort(ids)
    if not len(ids):
        raise InputError(f"{edges.frame.path} has no rows.")
    return Frame(edges.frame.path, pd.DataFrame({"id": pd.Series(ids, dtype=ends.dtype)}))


def graph_of(frames: dict[str, Frame], name: str, reading: Reading, given: Given | None = None) -> Graph:
    """The graph, or the graphs side by side; everything that is wrong with the tables is refused at once.

    Args:
        frames: ``nodes`` and ``edges``, and ``graphs`` where there are many; ``edges`` alone are a graph too.
    """
    given = given or Given()
    reading, frames = ignoring(reading.as_trained(), frames)
    if given.directed is not None:
        reading = replace(reading, directed=given.directed)
    edges, graphs = frames["edges"], frames.get("graphs")
    if "nodes" not in frames:
        nodes, reading = _named_nodes(edge_table(edges, reading)), replace(reading, labelled=False, id=None)
    else:
        nodes = frames["nodes"]
        if not len(nodes.table):
            raise InputError(f"{nodes.path} has no rows.")
    faults, roles, graph_roles = Faults(), Roles(), Roles()
    rows = nodes if graphs is None else graphs  # the table of what has labels
    notes = dialect_notes([frame for frame in (graphs, nodes, edges) if frame is not None])
    ids, graph_ids = pd.RangeIndex(len(nodes.table)), pd.RangeIndex(len(rows.table))
    home = table = features = None
    labels, ends, encoding = Labels(None, {}), np.zeros((2, 0), dtype=np.int64), reading.encoding
    with faults.collect():
        if graphs is not None:
            own = row_ids(graphs, graph_roles, GRAPH_ID)
            graph_ids = graph_ids if own is None else own
            column = nodes.need(*GRAPH)
            roles[column[0]] = "graph"
            home, unknown = places(nodes, column[1], graph_ids, graphs)
            if unknown:
                raise InputError(f"{nodes.path}: {unknown[0]} is not in {graphs.path.name}.")
        own = row_ids(nodes, roles, reading.named("id", ID), unique=graphs is None, needed=reading.id is not None)
        notes += [NO_IDS] if own is None else []
        ids = ids if own is None else own
    named = not faults.sentences
    with faults.collect():
        names, own_roles = (ids, roles) if graphs is None else (graph_ids, graph_roles)
        labels = find_labels(rows, reading, own_roles, given, names)
        check_classes(rows, labels, reading)
    if named or graphs is None:
        with faults.collect():
            features, encoding = learn_features(nodes, roles, reading)
    with faults.collect():
        table = edge_table(edges, reading)
        if named:
            many = {} if graphs is None else {"home": home, "graph_ids": graph_ids, "graphs": graphs}
            numbered = NO_IDS in notes and graphs is None
            ends = ends_of(table, ids, nodes, reading.drop_unknown_edges, numbered, **many)
    faults.check()
    assert table is not None
    notes += labels.notes
    called: dict[str, Any] = {"ids": ids.to_numpy() if given.ids is None else given.ids}
    if home is not None:
        order = np.argsort(home, kind="stable")  # nodes graph by graph
        if features is not None:
            features = features.iloc[order] if isinstance(features, pd.DataFrame) else features[order]
        ends = np.where(ends < 0, -1, np.argsort(order)[ends])
        called = {"ids": graph_ids.to_numpy(), "sizes": np.bincount(home, minlength=len(graph_ids))}
    known = np.flatnonzero((ends >= 0).all(axis=0))
    if len(known) < ends.shape[1]:
        notes.append(dropped_edges(ends.shape[1] - len(known), ends.shape[1]))
    edge_index, copied = both_ways(ends[:, known], len(ids), reading.directed)
    weight = None
    if table.weight is not None:
        weight = check_edge_weight(table.weight, ends.shape[1]).numpy()[known][copied]
    edge_attr = None
    if graphs is not None and table.further:
        edge_attr = edges.table[table.further].iloc[known[copied]]
        if not reading.trained:
            of_edges = learn_table(edge_attr, edges.path, reading.impute, "edge")
            encoding = encoding or Encoding("given")
            reasons = encoding.left_out | of_edges.left_out
            encoding = replace(encoding, edge_columns=of_edges.columns, left_out=reasons)
    elif table.further:
        notes.append(f"{FOR_MANY}; on one graph {', '.join(map(str, table.further))} are left out.")
    if graphs is not None and (left := [str(c) for c in graphs.table.columns if c not in graph_roles]):
        notes.append(f"columns of {graphs.path.name} that are no id, label or split are left out: {', '.join(left)}.")
    labelled = labels.values is not None if reading.labelled is None else reading.labelled
    y = labels.values if labelled or reading.trained else None
    graph = build_graph(
        RawGraph(features, edge_index, weight, edge_attr, y, num_nodes=len(ids), **labels.splits, **called),
        classes=reading.classes,
        encoding=encoding,
        task=labels.task,
        labelled=labelled,
        trained=reading.trained,
        seed=reading.seed,
        name=name,
        divide=given.divide,
    )
    encoding = graph.encoding or Encoding("given")
    if not reading.trained:
        encoding = reading.remembered(encoding, labels.column)
        if labels.names is not None and labelled:
            graph = replace(graph, classes=labels.names)
    uses = [] if graphs is None else column_uses(graphs, graph_roles, otherwise="no id, label or split")
    if nodes.path != edges.path:
        uses += column_uses(nodes, roles, encoding.columns, encoding.left_out)
    columns = () if graphs is None else encoding.edge_columns
    uses += column_uses(edges, table.roles, columns, encoding.left_out if columns else {}, FOR_MANY)
    return replace(graph, encoding=replace(encoding, uses=tuple(uses)), notes=(*notes, *graph.notes))


# A folder of files.


HOLDS = "a graph folder holds nodes and edges, and graphs where there are many"


def is_table_file(path: Path) -> bool:
    """Whether this is one table rather than a folder of them."""
    return path.is_file() and path.name.lower().endswith(ENDINGS)


def edges_only(path: Path, reading: Reading) -> bool:
    """Whether there are edges here and nothing else, so no labels."""
    if path.is_file():
        return True
    return bool(reading.file(path, "edges")) and not any(reading.file(path, stem) for stem in ("nodes", "graphs"))


def read_folder(folder: Path, name: str, reading: Reading | None = None, **changes: Any) -> Graph:
    """The graph, or the graphs, in ``folder`` (or in a file of edges), checked.

    Args:
        changes: fields of ``reading`` that have other values.
    """
    reading = replace(reading or Reading(), **changes)
    graph = graph_of(read_frames(folder, reading.as_trained()), name, reading)
    return replace(graph, read_as=partial(read_folder, folder.absolute(), name, reading))


def read_frames(folder: Path, reading: Reading) -> dict[str, Frame]:
    """The tables by their names; every file that cannot be read is named."""
    options, faults = reading.options, Faults()
    ends = (*reading.named("source", SOURCE), *reading.named("target", TARGET))
    if edges_only(folder, reading):
        file = folder if folder.is_file() else reading.file(folder, "edges")
        return {"edges": read_file(file or folder, ends, options)}
    frames: dict[str, Frame] = {}
    own = (*reading.named("id", ()), *GRAPH_ID)
    for stem in ("graphs", "nodes"):
        with faults.collect():
            if stem == "nodes" or reading.file(folder, stem) is not None:
                frames[stem] = _named_file(folder, stem, own, reading)
    words: list[str] = []
    if "nodes" in frames:
        with faults.collect():
            nodes, array = frames["nodes"], folder / FEATURES
            if reading.nodes is None and array.is_file():
                if nodes.matrix is not None:
                    raise InputError(f"{nodes.path} holds x, and {FEATURES} lies beside it: keep one of them.")
                frames["nodes"] = replace(nodes, matrix=feature_array(array, len(nodes.table)))
        words += _words(frames["nodes"], reading.named("id", ID), ends)
    if "graphs" in frames:
        words += _words(frames["graphs"], GRAPH_ID, GRAPH)
    with faults.collect():
        frames["edges"] = _named_file(folder, "edges", words, reading)
    faults.check()
    return frames


def _words(frame: Frame, names: Sequence[str], columns: Sequence[str]) -> Sequence[str]:
    """The columns that name this table's rows, where its rows' names are words."""
    column = frame.take(*names)
    return columns if column is not None and not pd.api.types.is_numeric_dtype(column[1]) else ()


def _named_file(folder: Path, stem: str, words: Sequence[str], reading: Reading) -> Frame:
    path = reading.file(folder, stem)
    if path is None and reading.nodes is not None:
        raise InputError(f"the file of {stem} is not named: give nodes and edges.")
    if path is None:
        raise InputError(f"{folder / stem}.csv (or .parquet, .npz) is missing: {HOLDS}.")
    return read_file(path, words, reading.options)


# Tables and networks in memory.


def read_tables(
    nodes: Any, edges: Any, graphs: Any = None, *, name: str = "graph", reading: Reading | None = None, **given: Any
) -> Graph:
    """The graph of tables in memory, read as files are.

    Args:
        nodes, edges, graphs: DataFrames with the columns that a folder's files have; where none of them names the
            rows, the table's index does. ``nodes`` None: those that the edges name.
        given: fields of ``Given``.
    """
    tables = {"graphs": graphs, "nodes": nodes, "edges": edges}
    frames = {stem: table_frame(table, stem) for stem, table in tables.items() if table is not None}
    reading = reading or Reading()
    return _with_source(_with_numbers(frames, reading), name, reading, Given(**given))


def _with_numbers(frames: dict[str, Frame], reading: Reading) -> dict[str, Frame]:
    """Tables with the features that are words such as $1,234.56 or 12 % as numbers, as files are read."""
    roles = (("id", ID), ("source", SOURCE), ("target", TARGET), ("label", LABEL), ("group", ()), ("time", ()))
    own = {name for role, usual in roles for name in reading.named(role, usual)} | {*GRAPH, *GRAPH_ID}
    for stem, frame in frames.items():
        read = dict[str, pd.Series]()
        for name, column in frame.table.items():
            marked = (
                pd.api.types.is_string_dtype(column) and column.head(100).astype(str).str.contains("[$€£¥%,]").any()
            )
            if marked and str(name).strip().lower() not in own and (found := as_numbers(column, ".")):
                read[str(name)] = found[0]
        frames = frames | ({stem: replace(frame, table=frame.table.assign(**read))} if read else {})
    return frames


def _with_source(frames: dict[str, Frame], name: str, reading: Reading, given: Given) -> Graph:
    def read_as(**changes: Any) -> Graph:
        return graph_of(frames, name, replace(reading, **changes), given)

    return replace(read_as(), read_as=read_as)


def table_frame(table: Any, stem: str) -> Frame:
    table = as_table(table)
    if not isinstance(table, pd.DataFrame):
        raise InputError(f"the {stem} must be a table with named columns, got {type(table).__name__}.")
    frame = Frame(Path(stem), table.rename(columns=str))
    if isinstance(table.index, pd.RangeIndex) and table.index.name is None:
        return checked(frame)
    if stem == "edges" and table.index.nlevels == 1:
        return checked(replace(frame, table=frame.table.reset_index(drop=table.index.name is None)))
    if stem != "edges" and frame.take(*(ID if stem == "nodes" else GRAPH_ID)) is None:
        return checked(replace(frame, table=frame.table.rename_axis(index=ID[0]).reset_index()))
    return checked(replace(frame, table=frame.table.reset_index(drop=stem != "edges")))


def read_networks(graphs: Any, *, name: str = "graph", reading: Reading | None = None, **given: Any) -> Graph:
    """A graph of networkx or igraph, or a list of them side by side: attributes are columns.

    The node attribute x holds the features where it is there; other attributes that hold arrays become a column for
    each of their numbers. Edges without a weight among others count one.
    """
    many = isinstance(graphs, list | tuple)
    parts = [parts_of_network(graph) for graph in (graphs if many else [graphs])]
    names, rows, ends = list[Any](), list[dict[str, Any]](), list[dict[str, Any]]()
    for i, part in enumerate(parts):
        place = {node: len(names) + j for j, node in enumerate(part.names)}
        names += part.names
        rows += [{**own, "graph": i} if many else own for own in part.nodes]
        ends += [{**own, "source": place[u], "target": place[v]} for u, v, own in part.edges]
    if any("weight" in own for own in ends):
        ends = [{"weight": 1.0, **own} for own in ends]
    nodes, matrix = _columns(rows, names)
    nodes = nodes.drop(columns=[c for c in nodes if str(c).strip().lower() in ID]).assign(id=range(len(rows)))
    edges, _ = _columns(ends, range(len(ends)))
    edges = edges if len(ends) else pd.DataFrame({"source": nodes["id"][:0], "target": nodes["id"][:0]})
    frames = {"nodes": Frame(Path("nodes"), nodes, matrix, alone=True), "edges": Frame(Path("edges"), edges)}
    if many:
        labels = [{k: v for k, v in part.about.items() if k in ("y", "label")} for part in parts]
        frames["graphs"] = Frame(Path("graphs"), pd.DataFrame(labels).assign(id=range(len(parts))))
    called = np.empty(len(names), dtype=object)
    called[:] = names
    beside = {"directed": all(part.directed for part in parts), "ids": None if many else called} | given
    frames = {stem: checked(frame) for stem, frame in frames.items()}
    return _with_source(frames, name, reading or Reading(), Given(**beside))


@dataclass(frozen=True)
class _Network:
    """A graph's nodes by their names, and what is said about nodes, edges and the graph itself."""

    names: list[Any]
    nodes: list[dict[str, Any]]
    edges: list[tuple[Any, Any, dict[str, Any]]]
    about: dict[str, Any]
    directed: bool


def parts_of_network(graph: Any) -> _Network:
    if hasattr(graph, "vs"):  # igraph
        names = list(graph.vs["name"]) if "name" in graph.vs.attributes() else list(range(graph.vcount()))
        nodes = [{k: v for k, v in node.attributes().items() if k != "name"} for node in graph.vs]
        edges = [(names[edge.source], names[edge.target], edge.attributes()) for edge in graph.es]
        return _Network(names, nodes, edges, {k: graph[k] for k in graph.attributes()}, graph.is_directed())
    nodes = [dict(graph.nodes[node]) for node in graph.nodes]
    return _Network(list(graph.nodes), nodes, list(graph.edges(data=True)), dict(graph.graph), graph.is_directed())


def _columns(rows: list[dict[str, Any]], names: Any) -> tuple[pd.DataFrame, np.ndarray | None]:
    """Attributes as columns, and x as an array."""
    columns, matrix = dict[str, Any](), None
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        several = any(np.ndim(value) for value in values if isinstance(value, list | tuple | np.ndarray | Tensor))
        if not several and name != "x":
            columns[str(name)] = values
            continue
        without = [node for node, value in zip(names, values, strict=True) if value is None]
        if without:
            raise InputError(
                f"node {shown(without[0])} has no attribute {name}, but others have: give it to all or none."
            )
        try:
            array = np.array([np.atleast_1d(np.asarray(value, dtype=np.float64)) for value in values])
            array = array.reshape(len(values), -1) if array.ndim > 1 else array[:, None]
        except (ValueError, TypeError) as error:
            raise InputError(f"the attribute {name} must be numbers, as many everywhere.") from error
        if name == "x":
            matrix = array
        else:
            columns |= {f"{name}_{j}": values for j, values in enumerate(array.T)}
    return pd.DataFrame(columns, index=pd.RangeIndex(len(rows))), matrix


def tabular(data: Any, y: Any, given: dict[str, Any], reading: Reading, **how: Any) -> Graph | None:
    """The graph of DataFrames, or of networkx or igraph, read as a folder is; None where the data are neither.

    Args:
        data: the nodes, with ``edges`` among what is ``given``; the graphs, with ``nodes`` too; or networks.
        y: the labels, or the name of their column.
        how: fields of ``Given``.
    """
    network = is_network(data[0] if isinstance(data, list | tuple) and len(data) else data)
    if not network and "edges" not in given:
        return None
    named = named_options(given, (*OPTIONS, *SPLITS))
    splits = {split: named.pop(split, None) for split in SPLITS}
    how |= {"y": y, "splits": {split: rows for split, rows in splits.items() if rows is not None}}
    if isinstance(y, str):
        named, how = named | {"label": y}, how | {"y": None}
    if network:
        how |= {} if named.get("directed") is None else {"directed": named["directed"]}
        return read_networks(data, reading=reading.with_options(named), **how)
    edges, nodes = named.pop("edges"), named.pop("nodes", None)
    reading = reading.with_options(named)
    frames = (data, edges) if nodes is None else (nodes, edges, data)
    return read_tables(*frames, reading=reading, **how)


def edge_rows(data: Any, given: dict[str, Any], graph: Graph) -> EdgeTable:
    """The table of the edges of what a user gave, its nodes numbered as in ``graph``.

    Args:
        data, given: a folder, a file of edges, a network, or ``nodes`` and ``edges`` among what is given: DataFrames or
            files.
    """
    files = {name for name in ("nodes", "edges") if isinstance(given.get(name), str | Path)}
    known = {name: value for name, value in given.items() if name in {*OPTIONS} - {"nodes", "edges"} | files}
    data = Path(given["nodes"] if "nodes" in files else given["edges"]).parent if files else data
    reading = Reading(labelled=False, encoding=graph.encoding).with_options(named_options(known, OPTIONS))
    if is_network(data):
        rows = [{**own, "source": u, "target": v} for u, v, own in parts_of_network(data).edges]
        frame = Frame(Path("edges"), pd.DataFrame(rows, columns=None if rows else ["source", "target"]))
    elif isinstance(data, str | Path) and (Path(data).is_dir() or is_table_file(Path(data))):
        frame = read_frames(Path(data), reading.as_trained())["edges"]
    elif isinstance(given.get("edges"), pd.DataFrame):
        frame = table_frame(given["edges"], "edges")
    else:
        raise InputError("columns of edges are in a table of edges: give a folder, DataFrames or a network.")
    table = edge_table(frame, reading.as_trained())
    ids = pd.RangeIndex(graph.num_nodes) if graph.ids is None else pd.Index(graph.ids)
    ends = np.stack([row_of(side, ids) for side in (table.source, table.target)])
    apart = {name for name, role in table.roles.items() if role in ("source", "target")}
    ignored = {name.strip() for names in reading.ignore for name in (names, *names.split(","))}
    further = [str(name) for name in frame.table if name not in apart and name not in ignored]
    return replace(table, ends=ends, further=further)
