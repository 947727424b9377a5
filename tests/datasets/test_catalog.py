"""Datasets by name and folders by layout; the real ones where they are at hand."""

import pytest

from folders import molecules, node_graph, tu
from rapgnn import InputError, load_dataset
from rapgnn.datasets import DATASETS, sources


def test_a_users_folder_in_either_layout_is_recognised(tmp_path):
    assert load_dataset(str(tu(tmp_path / "t"))).task == "graph-classification"
    assert load_dataset(str(molecules(tmp_path / "m"))).task == "graph-multilabel"
    assert load_dataset(str(node_graph(tmp_path / "n", False))).task == "node-classification"


COUNTS = {
    "mutag": (188, 3371, 7442, 7),
    "ptc": (344, 4915, 10108, 18),
    "proteins": (1113, 43471, 162088, 3),
    "molesol": (1128, 14991, 2 * 15428, 174),
    "molbace": (1513, 51577, 2 * 55768, 174),
    "moltox21": (7831, 145459, 2 * 151095, 174),
    "molhiv": (41127, 1049163, 2 * 1129688, 174),
}


@pytest.mark.parametrize("name", list(COUNTS))
def test_real_datasets(name, data_dir):
    if sources.find_in(DATASETS[name].files, data_dir) is None:
        pytest.skip(f"{name} is not in {data_dir}")
    graph = load_dataset(name, data_dir)
    assert (graph.num_rows, graph.num_nodes, graph.edge_index.shape[1], graph.num_features) == COUNTS[name]


def test_proteins_attributes_by_flag(data_dir):
    assert load_dataset("proteins", data_dir, attributes=True).num_features == 4
    with pytest.raises(InputError, match="no further node attributes"):
        load_dataset("mutag", data_dir, attributes=True)
