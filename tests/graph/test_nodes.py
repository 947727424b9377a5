"""One graph of PyTorch Geometric."""

import pytest
import torch

from rapgnn import InputError, fit, from_pyg
from samples import NODE_CONFIG as CONFIG


def test_pyg_data_round_trip(small_graph):
    from torch_geometric.data import Data

    masks = {f"{s}_mask": torch.zeros(300, dtype=torch.bool) for s in ("train", "val", "test")}
    for split in ("train", "val", "test"):
        masks[f"{split}_mask"][small_graph.rows(split)] = True
    data = Data(x=small_graph.x, edge_index=small_graph.edge_index, y=small_graph.y, **masks)
    ours = from_pyg(data)
    a, b = (fit("rap", g, CONFIG.update(epochs=5), 0).predict(g.test).scores for g in (small_graph, ours))
    assert torch.equal(a, b)
    with pytest.raises(InputError, match="train_mask"):
        from_pyg(Data(x=small_graph.x, edge_index=small_graph.edge_index, y=small_graph.y))
