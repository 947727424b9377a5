"""Tables that are no files: DataFrames, graphs of networkx and igraph, tables of other libraries."""

from datetime import date, timedelta
from decimal import Decimal

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from folders import tables, write
from rapgnn import InputError, NodeRows, RAPGraphClassifier, RAPNodeClassifier, load_dataset
from rapgnn.datasets.tables import read_networks, read_tables
from rapgnn.sparse import dense

RIDGE = {"search": False, "head": "ridge", "embedding": "identity"}


class Foreign:
    """A table of a library that is not installed, as polars shows itself."""

    def __init__(self, table: pd.DataFrame):
        self._table = table

    def to_pandas(self) -> pd.DataFrame:
        return self._table


def same(one, other) -> None:
    np.testing.assert_allclose(dense(one.x), dense(other.x), atol=1e-6)
    assert set(map(tuple, one.edge_index.T.tolist())) == set(map(tuple, other.edge_index.T.tolist()))
    assert [one.classes[i] for i in one.y] == [other.classes[i] for i in other.y]


@pytest.mark.parametrize("way", ["pandas", "index", "arrow", "foreign"])
def test_tables_in_memory_are_read_as_files_are(tmp_path, way):
    nodes, edges = tables()
    wanted = load_dataset(write(tmp_path, nodes=nodes, edges=edges))
    made = {
        "pandas": lambda: (nodes, edges),
        "index": lambda: (nodes.set_index("id"), edges),
        "arrow": lambda: (pa.Table.from_pandas(nodes), pa.Table.from_pandas(edges)),
        "foreign": lambda: (Foreign(nodes), Foreign(edges)),
    }[way]
    graph = read_tables(*made())
    same(graph, wanted)
    assert list(graph.ids) == list(nodes["id"])
    assert [use.read_as for use in graph.encoding.uses] == [use.read_as for use in wanted.encoding.uses]


def test_fit_and_predict_by_the_models_own_encoding(tmp_path):
    nodes, edges = tables()
    model = RAPNodeClassifier(**RIDGE).fit(nodes, edges=edges)
    assert model.score(nodes, edges=edges) > 0.8
    part = nodes[nodes["colour"] != "red"].drop(columns="label")  # one category fewer, and no labels
    inside = edges["source"].isin(part["id"]) & edges["target"].isin(part["id"])
    found = model.predict(part, edges=edges[inside])
    wanted = model.predict(nodes, edges=edges[inside])[part.index]
    assert (found == wanted).mean() > 0.9
    model.save(tmp_path / "m")
    loaded = RAPNodeClassifier.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(part, edges=edges[inside]), found)
    folder = write(tmp_path / "f", nodes=part, edges=edges[inside])
    np.testing.assert_array_equal(loaded.predict(folder), found)
    named = nodes.rename(columns={"label": "species", "id": "plant"})
    again = RAPNodeClassifier(**RIDGE).fit(named, "species", edges=edges, id="plant")
    np.testing.assert_array_equal(again.predict(named, edges=edges), model.predict(nodes, edges=edges))
    rows = NodeRows(nodes, edges=edges)
    assert RAPNodeClassifier(**RIDGE).fit(rows[:60]).score(rows[60:]) > 0.6
    with pytest.raises(InputError, match="no column 'heights' to ignore"):
        model.fit(nodes, edges=edges, ignore="heights")
    with pytest.raises(InputError, match="colour_of is unknown"):
        model.fit(nodes, edges=edges, colour_of="x")


def network(kind: type = nx.Graph) -> nx.Graph:
    nodes, edges = tables()
    graph = kind()
    graph.add_nodes_from((("plant", row.pop("id")), row) for row in nodes.to_dict("records"))
    graph.add_edges_from((("plant", u), ("plant", v)) for u, v in edges.itertuples(index=False))
    return graph


class Igraph:
    """What igraph shows of a graph."""

    class Sequence(list):
        def attributes(self):
            return list(self[0].attributes()) if self else []

        def __getitem__(self, key):
            return [item.attributes()[key] for item in self] if isinstance(key, str) else super().__getitem__(key)

    class Part:
        def __init__(self, attributes, source=0, target=0):
            self._attributes, self.source, self.target = attributes, source, target

        def attributes(self):
            return dict(self._attributes)

    def __init__(self, graph: nx.Graph):
        place = {node: i for i, node in enumerate(graph)}
        self.vs = self.Sequence(self.Part({"name": str(node), **graph.nodes[node]}) for node in graph)
        self.es = self.Sequence(self.Part(values, place[u], place[v]) for u, v, values in graph.edges(data=True))

    def vcount(self):
        return len(self.vs)

    def is_directed(self):
        return False

    def attributes(self):
        return []


@pytest.mark.parametrize("made", [lambda: network(), lambda: Igraph(network())])
def test_attributes_of_networks_are_columns(tmp_path, made):
    nodes, edges = tables()
    wanted, graph = load_dataset(write(tmp_path, nodes=nodes, edges=edges)), read_networks(made())
    same(graph, wanted)
    assert RAPNodeClassifier(**RIDGE).fit(made()).score(made()) > 0.8


def test_arrays_among_attributes():
    graph = network()
    for i, node in enumerate(graph):
        graph.nodes[node]["place"] = [i / 90, 1 - i / 90]
    assert read_networks(graph).num_features == 7
    for i, node in enumerate(graph):
        graph.nodes[node]["x"] = np.array([i % 2, i % 3])
    read = read_networks(graph)
    assert read.num_features == 2
    assert any("height (x holds the features)" in note for note in read.notes)
    del graph.nodes[("plant", "plant 7")]["x"]
    with pytest.raises(InputError, match="no attribute x, but others have"):
        read_networks(graph)


def test_lists_of_networks():
    rng = np.random.default_rng(0)
    graphs, y = [], []
    for i in range(60):
        graph = nx.cycle_graph(6) if i % 2 else nx.star_graph(5)
        nx.set_node_attributes(graph, {node: "CNO"[int(rng.integers(3))] for node in graph}, "atom")
        nx.set_edge_attributes(graph, dict.fromkeys(graph.edges, "double" if i % 2 else "single"), "bond")
        graphs.append(graph)
        y.append("ring" if i % 2 else "star")
    read = read_networks(graphs, y=y)
    assert (read.num_features, read.num_edge_features, read.num_rows) == (3, 2, 60)
    model = RAPGraphClassifier(search=False, head="ridge").fit(graphs, y)
    assert model.score(graphs, y) > 0.9
    assert (model.predict(graphs[:5]) == np.array(y[:5])).all()


def test_a_folder_without_labels_loads(tmp_path):
    nodes, edges = tables()
    graph = load_dataset(write(tmp_path, nodes=nodes.drop(columns="label"), edges=edges))
    assert graph.num_features == 5
    assert not len(graph.labelled)
    with pytest.raises(InputError, match="no label column"):
        RAPNodeClassifier().fit(tmp_path)


def test_parquet_dates_and_decimals_are_dates_and_numbers(tmp_path):
    nodes, edges = tables()
    days = [date(2024, 1, 1) + timedelta(days=i) for i in range(90)]
    prices = [Decimal(i) / 4 for i in range(90)]
    folder = write(tmp_path, "parquet", nodes=nodes.assign(day=days, price=prices), edges=edges)
    graph = load_dataset(folder)
    uses = {use.column: use.read_as for use in graph.encoding.uses}
    assert (uses["day"], uses["price"]) == ("date", "number")
    assert graph.num_features == 7


def test_arrays_of_other_machines_and_half_precision(tmp_path):
    nodes, edges = tables()
    number = {name: i for i, name in enumerate(nodes["id"])}
    columns = {"id": np.arange(90, dtype=">i8"), "height": nodes["height"].to_numpy(">f4")}
    np.savez(tmp_path / "nodes.npz", label=np.arange(90).astype("f2") % 3, **columns)
    np.savez(tmp_path / "edges.npz", **{end: edges[end].map(number).to_numpy(">i4") for end in edges})
    graph = load_dataset(tmp_path)
    assert graph.classes == (0, 1, 2)
    assert graph.num_features == 1


def test_tables_in_memory_hold_what_files_hold(tmp_path):
    """Marked numbers are numbers, but in a label; numbers of other machines are those of this one."""
    nodes, edges = tables()
    cells = {"price": [f"${1000 + 40 * i:,.2f}" for i in range(90)], "share": [f"{i / 3:.1f} %" for i in range(90)]}
    nodes = nodes.assign(**cells, label=["5 %", "10 %"] * 45)
    here = RAPNodeClassifier(search=False).fit(nodes, edges=edges, label="label")
    file = RAPNodeClassifier(search=False).fit(write(tmp_path, nodes=nodes.assign(label=["a", "b"] * 45), edges=edges))
    assert here.classes_.tolist() == ["10 %", "5 %"]
    assert here.feature_names_in_.tolist() == file.feature_names_in_.tolist()
    assert {"price", "share"} <= set(here.feature_names_in_)
    assert here.schema_.in_channels == file.schema_.in_channels
    other = nodes.assign(height=nodes["height"].to_numpy(">f8"))
    np.testing.assert_array_equal(here.predict_proba(other, edges=edges), here.predict_proba(nodes, edges=edges))
    numbers = pd.DataFrame({"id": np.arange(60, dtype=">i8"), "a": np.arange(60.0) % 7, "label": np.arange(60) % 2})
    ends = pd.DataFrame({"source": np.arange(60, dtype=">i8"), "target": (np.arange(60) * 7 % 60).astype(">i8")})
    assert RAPNodeClassifier(search=False).fit(numbers, edges=ends).n_features_in_ == 1
