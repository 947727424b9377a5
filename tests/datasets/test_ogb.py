"""The reader of OGB's layout: small files in exactly that layout, and damaged ones."""

import numpy as np
import pytest

from folders import BAD_MOLECULES, molecules, node_graph
from rapgnn import InputError
from rapgnn.datasets import ogb
from rapgnn.datasets.ogb import ATOM_CATEGORIES, BOND_CATEGORIES, read_molecules, read_node_graph


def test_molecules_are_read_as_ogb_stores_them(tmp_path):
    graph = read_molecules("tiny", molecules(tmp_path / "tiny"))
    assert graph.task == "graph-multilabel"
    assert graph.ptr.tolist() == [0, 3, 4, 6]
    # Every bond in both directions, numbered through all molecules.
    pairs = {tuple(edge) for edge in graph.edge_index.T.tolist()}
    assert pairs == {(0, 1), (1, 0), (1, 2), (2, 1), (4, 5), (5, 4)}
    assert (graph.num_features, graph.num_edge_features) == (sum(ATOM_CATEGORIES), sum(BOND_CATEGORIES))
    assert np.flatnonzero(graph.x.scipy().toarray()[1]).tolist()[:2] == [7, 119]  # atomic number 8, first chirality
    assert graph.edge_attr.scipy().toarray()[2].tolist() == graph.edge_attr.scipy().toarray()[3].tolist()
    assert graph.y.isnan().sum() == 2
    assert (graph.train.tolist(), graph.val.tolist(), graph.test.tolist()) == ([0, 1], [2], [])


def test_the_second_load_comes_from_the_cache_and_is_the_same(tmp_path, monkeypatch):
    folder = molecules(tmp_path / "tiny")
    first = read_molecules("tiny", folder)
    monkeypatch.setattr(ogb, "_parse_molecules", lambda folder: pytest.fail("parsed again"))
    again = read_molecules("tiny", folder)
    assert np.array_equal(first.x.scipy().toarray(), again.x.scipy().toarray())
    assert first.edge_index.equal(again.edge_index)
    kept = list((tmp_path / "cache/parsed").glob("*.npz"))
    assert len(kept) == 1
    with np.load(kept[0], allow_pickle=False) as arrays:
        assert "atoms" in arrays.files


def test_a_damaged_cache_is_made_again_and_a_changed_file_is_noticed(tmp_path):
    folder = molecules(tmp_path / "tiny")
    read_molecules("tiny", folder)
    kept = next((tmp_path / "cache/parsed").glob("*.npz"))
    kept.write_bytes(kept.read_bytes()[:100])
    assert read_molecules("tiny", folder).num_rows == 3
    molecules(folder, **{"raw/graph-label": [[1, 0], [0, 1], [1, 1]]})
    assert not read_molecules("tiny", folder).y.isnan().any()


def test_numbers_other_than_0_and_1_make_a_regression(tmp_path):
    graph = read_molecules("tiny", molecules(tmp_path / "t", **{"raw/graph-label": [-0.77, 1.5, 2.0]}))
    assert graph.task == "graph-regression"


@pytest.mark.parametrize(("changes", "words"), BAD_MOLECULES)
def test_bad_molecules_are_refused(tmp_path, changes, words):
    with pytest.raises(InputError, match=words):
        read_molecules("tiny", molecules(tmp_path / "tiny", **changes))


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"not a gzip file at all", lambda b: b[:3]])
@pytest.mark.parametrize("name", ["raw/node-feat", "raw/edge", "split/scaffold/valid"])
def test_a_truncated_gzip_is_refused_by_name(tmp_path, name, damage):
    folder = molecules(tmp_path / "tiny")
    path = folder / f"{name}.csv.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=f"cannot read .*{path.name}"):
        read_molecules("tiny", folder)


def test_molecules_without_any_bond_are_read(tmp_path):
    nothing = {"raw/num-edge-list": [0, 0, 0], "raw/edge": [], "raw/edge-feat": []}
    graph = read_molecules("tiny", molecules(tmp_path / "tiny", **nothing))
    assert graph.edge_index.shape == (2, 0)
    assert graph.num_edge_features == sum(BOND_CATEGORIES)


# One graph of nodes.


def test_proteins_average_their_edges_features(tmp_path):
    graph = read_node_graph("ogbn-proteins", node_graph(tmp_path / "p", True))
    by_hand = [[0.4, 0.75], [0.3, 0.5], [0.5, 0.25], [0.0, 0.0]]  # node 3 has no edge
    np.testing.assert_allclose(graph.x.numpy(), by_hand, rtol=1e-6)
    assert graph.task == "node-multilabel"
    assert graph.edge_index.shape[1] == 6
    with_species = read_node_graph("ogbn-proteins", tmp_path / "p", attributes=True)
    assert with_species.x[:, 2:].tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]]


def test_the_published_split_of_products_has_classes_that_training_lacks(tmp_path):
    folder = node_graph(tmp_path / "p", False, **{"raw/node-label": [0, 1, 1, 2]})
    assert read_node_graph("ogbn-products", folder).num_outputs == 3


def test_reading_edges_in_chunks_changes_nothing(tmp_path, monkeypatch):
    folder = node_graph(tmp_path / "p", True)
    whole = read_node_graph("ogbn-proteins", folder)
    monkeypatch.setenv("RAPGNN_CACHE", str(tmp_path / "other"))
    monkeypatch.setattr(ogb, "CHUNK", 2)
    np.testing.assert_allclose(read_node_graph("ogbn-proteins", folder).x.numpy(), whole.x.numpy(), rtol=1e-6)


def test_products_have_features_and_classes_of_their_own(tmp_path):
    graph = read_node_graph("ogbn-products", node_graph(tmp_path / "p", False))
    assert graph.task == "node-classification"
    assert graph.x.shape == (4, 2)
    assert graph.y.tolist() == [0, 1, 1, 0]
    with pytest.raises(InputError, match="no node attributes"):
        read_node_graph("ogbn-products", tmp_path / "p", attributes=True)


@pytest.mark.parametrize(
    ("proteins", "changes", "words"),
    [
        (True, {"raw/edge-feat": [[0.2, 1.0]]}, "1 rows but there are 3 edges"),
        (True, {"raw/edge-feat": [[0.2, 1.0]] * 4}, "more rows than there are edges"),
        (True, {"raw/node_species": [1, 2]}, "4 nodes but 2 species"),
        (False, {"raw/edge": [[0, 1], [1, 2], [0, 9]]}, "names a node outside 0 to 3"),
        (False, {"raw/num-edge-list": [7]}, "lists 3 edges but announces 7"),
        (False, {"raw/node-label": [0, 1]}, "4 nodes but 2 labels"),
        (False, {"split/any/test": [4]}, "names node 4"),
    ],
)
def test_bad_node_graphs_are_refused(tmp_path, proteins, changes, words):
    with pytest.raises(InputError, match=words):
        read_node_graph("tiny", node_graph(tmp_path / "p", proteins, **changes))
