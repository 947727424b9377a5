"""Random weights in any PyTorch Geometric model, and the metrics of collapse."""

import numpy as np
import pytest
import torch
import torch_geometric.nn as pyg
from torch import nn

from rapgnn import InputError, RandomWeights, collapse_by_layer, collapse_metrics, randomize

N, EDGES = 12, torch.randint(0, 12, (2, 40), generator=torch.Generator().manual_seed(0))
X = torch.rand(N, 8, generator=torch.Generator().manual_seed(1))


class OwnConv(pyg.MessagePassing):
    """A user's layer: a bare matrix, a nested network, and an attention vector that is no linear map."""

    def __init__(self, channels: int):
        super().__init__(aggr="add")
        self.weight = nn.Parameter(torch.rand(channels, channels))
        self.network = nn.Sequential(nn.Linear(channels, 2 * channels), nn.ReLU(), nn.Linear(2 * channels, channels))
        self.gate = nn.Parameter(torch.rand(channels))

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=self.network(x @ self.weight) * self.gate)

    def message(self, x_j):
        return x_j


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Linear(8, 8)
        self.blocks = nn.ModuleList([nn.ModuleDict({"conv": OwnConv(8), "norm": nn.LayerNorm(8)}) for _ in range(2)])

    def forward(self, x, edge_index):
        h = self.embedding(x)
        for block in self.blocks:
            h = block["norm"](block["conv"](h, edge_index))
        return h


def model(name: str) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return {
            "gcn": lambda: pyg.GCN(8, 8, 2),
            "gat": lambda: pyg.GAT(8, 8, 2, heads=2),
            "gatv2": lambda: pyg.GAT(8, 8, 2, v2=True),
            "sage": lambda: pyg.GraphSAGE(8, 8, 2, out_channels=3),
            "gin": lambda: pyg.GIN(8, 8, 2),
            "transformer": lambda: pyg.TransformerConv(8, 4, heads=2),
            "own": Own,
        }[name]()


NAMES = ["gcn", "gat", "gatv2", "sage", "gin", "transformer", "own"]


@pytest.mark.parametrize("name", NAMES)
def test_every_call_draws_anew_and_can_be_replayed(name, fresh_random_state):
    original = model(name).eval()
    before = {k: v.clone() for k, v in original.state_dict().items()}
    random = randomize(original, seed=3).eval()
    first, second = random(X, EDGES), random(X, EDGES)
    assert torch.isfinite(first).all()
    assert not torch.allclose(first, second)
    random.draw_counter.fill_(0)
    assert torch.equal(random(X, EDGES), first)
    assert not any(p.requires_grad for p in random.parameters())
    assert all(torch.equal(v, before[k]) for k, v in original.state_dict().items())  # the model given is untouched
    assert not torch.equal(randomize(original, seed=4).eval()(X, EDGES), first)


@pytest.mark.parametrize("name", NAMES)
def test_the_state_carries_seed_and_counter(name):
    a = randomize(model(name), seed=3).eval()
    a(X, EDGES)
    b = randomize(model(name), seed=99).eval()
    b.load_state_dict(a.state_dict())
    assert int(b.seed) == 3
    assert torch.equal(a(X, EDGES), b(X, EDGES))


def test_gat_keeps_its_attention_and_says_what_it_drew():
    original = model("gat")
    random = randomize(original)
    assert set(random.summary.values()) == {"8 × 8, diagonal, drawn in every call"}
    for layer, old in zip(random.module.convs, original.convs, strict=True):
        assert torch.equal(layer.att_src, old.att_src)
    assert "diagonal" in repr(random)


def test_a_square_map_is_diagonal_and_another_full():
    random = randomize(model("own"))
    kinds = {name.split(".", 3)[-1]: what.split(", ")[1] for name, what in random.summary.items()}
    assert kinds == {"weight": "diagonal", "network.0": "full", "network.2": "full"}
    random(X, EDGES)
    conv = random.module.blocks[0]["conv"]
    weight = conv.weight
    assert torch.equal(weight, torch.diag(weight.diagonal()))
    assert float(weight.min()) >= 0
    assert float(weight.max()) <= 1
    full = conv.network[0].weight
    assert full.shape == (16, 8)
    assert float(full.min()) < 0 < float(full.max())
    assert isinstance(random.module.embedding, nn.Linear)  # outside the convolutions nothing changes


def test_one_gcn_layer_by_hand():
    """A convolution with a drawn diagonal is the convolution with that matrix as its weight."""
    conv = pyg.GCNConv(8, 8)
    random = randomize(conv)
    out = random(X, EDGES)
    alpha = RandomWeights(seed=0).draw(0, [0], 8)[0, 0]
    with torch.no_grad():
        conv.lin.weight.copy_(torch.diag(alpha))
    torch.testing.assert_close(out, conv(X, EDGES))


def test_a_fixed_schedule_draws_once():
    random = randomize(model("gcn"), RandomWeights(schedule="fixed")).eval()
    assert torch.equal(random(X, EDGES), random(X, EDGES))


@pytest.mark.parametrize(
    ("module", "weights", "words"),
    [
        (nn.Linear(3, 3), None, "no message-passing layer"),
        (pyg.GCNConv(-1, 8), None, "has no size yet"),
        (pyg.SimpleConv(), None, "no linear map"),
        (pyg.GCNConv(8, 8), RandomWeights("full"), "cannot be 'full'"),
    ],
)
def test_what_cannot_be_randomized_is_refused(module, weights, words):
    with pytest.raises(InputError, match=words):
        randomize(module, weights)


def test_collapse_metrics_by_hand():
    edges = torch.tensor([[0, 1], [1, 0]])
    same = collapse_metrics(torch.ones(2, 3), edges)
    assert (same["rank"], same["variance"]) == (1.0, 0.0)
    assert same["effective_rank"] == pytest.approx(1.0)
    assert same["dirichlet_energy"] == pytest.approx(0.0)
    assert same["mad"] == pytest.approx(0.0)
    apart = collapse_metrics(torch.eye(2), edges)
    assert apart["rank"] == 2
    assert apart["effective_rank"] == pytest.approx(2.0)
    assert apart["mad"] == pytest.approx(1.0)
    assert apart["variance"] == pytest.approx(0.25)
    # Both degrees are 1, so h is divided by √2: two directed edges of squared length 1, halved, over two nodes.
    assert apart["dirichlet_energy"] == pytest.approx(0.5)
    nothing = collapse_metrics(torch.zeros(3, 2), edges)
    assert nothing["effective_rank"] == 0.0
    assert all(np.isfinite(list(nothing.values())))


def test_mean_average_distance_is_that_of_all_pairs():
    h = torch.randn(9, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    unit = h / h.norm(dim=1, keepdim=True)
    cosine = unit @ unit.T
    pairs = [1 - float(cosine[i, j]) for i in range(9) for j in range(9) if i != j]
    assert collapse_metrics(h, EDGES[:, :0])["mad"] == pytest.approx(np.mean(pairs))


def test_layers_of_any_model_are_watched():
    records = collapse_by_layer(model("gat").eval(), X, EDGES, edge_index=EDGES)
    assert [r["layer"] for r in records] == ["convs.0", "convs.1"]
    random = randomize(model("own")).eval()
    assert len(collapse_by_layer(random, X, EDGES, edge_index=EDGES)) == 2


def test_full_random_matrices_collapse_and_diagonals_do_not():
    """The paper's observations on rank, on the raw layers."""
    from rapgnn import Propagation
    from rapgnn.graph.operator import build_operator
    from rapgnn.propagation.stepwise import propagate

    g = torch.Generator().manual_seed(0)
    x, edges = torch.rand(60, 16, generator=g), torch.randint(0, 60, (2, 300), generator=g)
    operator = build_operator(x, edges, "gcn")
    ranks = {}
    for kind in ("diagonal", "full"):
        layers = propagate(Propagation("gcn", 8, RandomWeights(kind)), operator, x, 0, every_layer=True)
        ranks[kind] = collapse_metrics(layers[-1], edges)["effective_rank"]
    assert ranks["full"] < 2
    assert ranks["diagonal"] > 2 * ranks["full"]
