"""Cora, CiteSeer and PubMed as they are published."""

import pytest

from rapgnn.datasets import DATASETS, load_dataset
from rapgnn.errors import InputError


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "features", "classes", "train"),
    [
        ("cora", 2708, 10556, 1433, 7, 140),
        ("citeseer", 3327, 9104, 3703, 6, 120),
        ("pubmed", 19717, 88648, 500, 3, 60),
    ],
)
def test_planetoid(data_dir, name, nodes, edges, features, classes, train):
    graph = load_dataset(name, data_dir)
    assert (graph.num_nodes, graph.edge_index.shape[1], graph.num_features) == (nodes, edges, features)
    assert (graph.num_outputs, len(graph.train), len(graph.val), len(graph.test)) == (classes, train, 500, 1000)
    reverse = graph.edge_index.flip(0)
    assert set(map(tuple, graph.edge_index.T.tolist())) == set(map(tuple, reverse.T.tolist()))  # undirected


def test_planetoid_equals_pytorch_geometric(data_dir, tmp_path):
    """Features, labels and splits are those that PyG reads from the same files."""
    import shutil

    import numpy as np
    from torch_geometric.io import read_planetoid_data

    folder = shutil.copytree(data_dir / DATASETS["citeseer"].files.folder, tmp_path / "raw")
    with pytest.MonkeyPatch.context() as patch:
        # PyG asks numpy for a pickle helper by the name numpy 2 deprecates.
        import warnings

        patch.setattr(warnings, "warn", lambda *arguments, **options: None)
        theirs = read_planetoid_data(str(folder), "citeseer")
    ours = load_dataset("citeseer", data_dir)
    np.testing.assert_array_equal(ours.x.columns(0, 3703).numpy(), theirs.x.numpy())
    labelled = ours.y >= 0
    assert (ours.y[labelled] == theirs.y[labelled]).all()
    for split in ("train", "val", "test"):
        assert theirs[f"{split}_mask"].nonzero().flatten().tolist() == ours.rows(split).tolist()


def test_a_pickle_that_names_code_is_refused(tmp_path):
    import pickle

    from rapgnn.datasets.planetoid import _read

    (tmp_path / "ind.evil.x").write_bytes(pickle.dumps(print, protocol=2))
    with pytest.raises(InputError, match="print"):
        _read(tmp_path / "ind.evil.x")
