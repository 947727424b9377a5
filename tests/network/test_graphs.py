"""Pooling and jumping knowledge: the shortcut against the layer-by-layer engine on batches of graphs, deep ones too."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from operators import TOLERANCE, adapted, build, relative_error
from rapgnn import Propagation
from rapgnn.graph.backbones import BACKBONES
from rapgnn.network.polynomial import PolynomialFilter
from rapgnn.network.stepwise import pooled
from strategies import batches


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("backbone", BACKBONES)
@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    batch=batches(),
    num_layers=st.sampled_from([1, 2, 3, 5, 16, 33]),
    seed=st.integers(0, 2**40),
    how=st.sampled_from(["sum", "mean"]),
    jumping=st.sampled_from(["last", "cat"]),
    flags=st.tuples(st.booleans(), st.sampled_from([None, True]), st.sampled_from([0.0, 0.5, -1.0])),
    factors=st.integers(1, 3),
)
def test_shortcut_equals_layer_by_layer(backbone, dtype, batch, num_layers, seed, how, jumping, flags, factors):
    rescale, residual, eps = flags
    rule = BACKBONES[backbone]
    eps = max(eps, 0.0) if rule.edges else eps  # what an edge adds does not shrink with the nodes
    operator, h, e = build(backbone, batch, dtype, eps if rule.includes_self else 0.0, seed % 1000)
    spec = Propagation(
        backbone,
        num_layers,
        seed=seed,
        residual=residual,
        rescale=rescale,
        factors=factors if len(rule.terms) == 1 else 1,
        jumping=jumping,
        pooling=how,
    )
    spec = adapted(spec, operator) if rule.includes_self else spec
    assert spec.obstacle(operator, h, e) is None
    kept = PolynomialFilter(spec, operator, h, e=e)
    drawn = kept.draw([11, 12])
    rows = torch.arange(operator.num_rows).flip(0)
    for position, counter in enumerate([11, 12]):
        reference = pooled(spec, operator, h, counter, e=e)
        assert torch.isfinite(reference).all()
        assert relative_error(drawn[position], reference) < TOLERANCE[dtype]
        one = kept.draw_batch(rows, kept.coefficients([counter])[0])
        assert relative_error(one, reference[rows]) < TOLERANCE[dtype]


@pytest.mark.parametrize("jumping", ["last", "cat"])
@settings(max_examples=30, deadline=None, derandomize=True)
@given(batch=batches(), num_layers=st.integers(1, 6), seed=st.integers(0, 1000))
def test_the_maximum_commutes_with_a_single_hop(jumping, batch, num_layers, seed):
    operator, h, _ = build("gin", batch, seed=seed)
    spec = Propagation("gin", num_layers, seed=seed, jumping=jumping, pooling="max")
    spec = adapted(spec, operator)
    assert spec.obstacle(operator, h) is None
    drawn = PolynomialFilter(spec, operator, h).draw([3])[0]
    assert relative_error(drawn, pooled(spec, operator, h, 3)) < 1e-12


@pytest.mark.parametrize("backbone", ["gin", "gine"])
@pytest.mark.parametrize("jumping", ["last", "cat"])
def test_exact_moments_agree_with_20000_draws(backbone, jumping):
    g = torch.Generator().manual_seed(3)
    edges = torch.cat([torch.randint(0, 6, (2, 14), generator=g), torch.randint(6, 11, (2, 9), generator=g)], dim=1)
    codes = torch.randint(0, 3, (23,), generator=g)
    operator, h, e = build(backbone, ([6, 5], edges, None, codes), channels=3)
    spec = Propagation(backbone, 3, seed=5, params=(0.2, 1.0), factors=2, jumping=jumping)
    spec = adapted(spec, operator)
    kept = PolynomialFilter(spec, operator, h, e=e)
    drawn = kept.draw(range(20_000))
    torch.testing.assert_close(drawn.mean(0), kept.expectation(), rtol=0.03, atol=0)
    torch.testing.assert_close(drawn.std(0), kept.variance().sqrt(), rtol=0.04, atol=1e-12)
    torch.testing.assert_close(
        PolynomialFilter(spec, operator, h, expect=torch.tensor([1]), e=e).expected, kept.expectation()[1:]
    )
    # Covariances between the outputs of one channel, summed over the rows.
    outputs = len(spec.outputs)
    apart = (drawn - drawn.mean(0)).view(20_000, 2, outputs, 3)
    sampled = torch.einsum("trjd,trmd->djm", apart, apart) / 20_000
    torch.testing.assert_close(kept.scatter(torch.arange(2)), sampled, rtol=0.06, atol=1e-3 * float(sampled.max()))


@pytest.mark.parametrize("backbone", BACKBONES)
def test_sixty_four_layers_neither_overflow_nor_vanish(backbone):
    star = torch.stack([torch.arange(1, 400), torch.zeros(399, dtype=torch.int64)])
    edges = torch.cat([star, star.flip(0)], dim=1)
    operator, h, e = build(backbone, ([400], edges, None, torch.zeros(798, dtype=torch.int64)), torch.float32)
    for structure in ("full", "diagonal"):
        spec = Propagation(backbone, 64, structure=structure, seed=1)
        spec = adapted(spec, operator) if BACKBONES[backbone].includes_self else spec
        reference = pooled(spec, operator, h * 1e6, 0, e=e)
        assert torch.isfinite(reference).all()
        assert float(reference.abs().max()) > 1e-3
    assert relative_error(PolynomialFilter(spec, operator, h * 1e6, e=e).draw([0])[0], reference) < 1e-5
