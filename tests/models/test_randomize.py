"""Random weights in any model of PyTorch Geometric."""

import pytest
import torch
import torch_geometric.nn as pyg
from torch import nn

from networks import EDGES, X, model
from rapgnn import InputError, RandomWeights, randomize

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
