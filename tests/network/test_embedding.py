"""Embeddings by hand, and the head's first scale."""

import torch

from rapgnn import RAPGNN
from rapgnn.network.heads import Head
from rapgnn.prng import Stream, seeded
from samples import GRAPH_CONFIG as CONFIG


def test_one_gine_layer_by_counting_equals_the_layer(molecules):
    model = RAPGNN(4, out_channels=2, edge_channels=3, **CONFIG.update(embedding="pretrained-gnn", eps=0.5).to_dict())
    operator, embedding = molecules.operator("gine", eps=0.5), model.embedding
    x = embedding.node_encoder(molecules.x)
    e = torch.relu(embedding.edge_encoder(operator.edges.features))
    z = 1.5 * x
    for (u, v), kind in zip(molecules.edge_index.T.tolist(), operator.edges.kind.tolist(), strict=True):
        z = z.index_add(0, torch.tensor([v]), torch.relu(x[u] + e[kind])[None])
    by_hand = torch.relu(embedding.mlp(z))
    h = embedding.embed(embedding.inputs(molecules.x, operator))
    torch.testing.assert_close(h, by_hand, rtol=1e-4, atol=1e-5)


def test_features_near_zero_have_a_finite_scale():
    head = Head(3, 4, 2, 1, generator=seeded(0, Stream.START_VALUES))
    head.fit_input_scale(torch.zeros(3), torch.full((3,), 1e-80, dtype=torch.float64))
    assert torch.isfinite(head.input_scale).all()
