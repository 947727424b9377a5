"""Random weights in any model of PyTorch Geometric."""

import pytest
import torch
import torch_geometric.nn as pyg
from torch import nn

from rapgnn import InputError, RandomWeights, randomize

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
