"""The spread that follows from the exact variance, against samples of normal scores with that covariance."""

import pytest
import torch

from rapgnn import Config, InputError, Propagation, RAPGraphClassifier, fit
from rapgnn.graph.tasks import TASKS
from rapgnn.network.heads import Head, RidgeHead, RidgeRegression
from rapgnn.network.polynomial import HopMoments, PolynomialFilter
from rapgnn.prng import seeded
from rapgnn.training.predict import model_on
from rapgnn.training.uncertainty import head_spread, spread_of


def setting(targets: int, outputs: int = 2, d: int = 30, rows: int = 6, size: float = 0.15):
    """(head, expectation, covariance by pairs, covariance of each channel's outputs)."""
    g = torch.Generator().manual_seed(0)
    head = Head(outputs * d, 1, targets, generator=seeded(1, 0))
    with torch.no_grad():
        head.mlp.linears()[0].weight.normal_(generator=g)
    root = size * torch.randn(rows, d, outputs, outputs, generator=g)
    full = root @ root.mT
    first, second = torch.triu_indices(outputs, outputs)
    return head, torch.randn(rows, outputs * d, generator=g), full[:, :, first, second].transpose(1, 2), root


def sampled(head, expectation, root, objective, count: int = 40_000):
    rows, d, outputs, _ = root.shape
    g = torch.Generator().manual_seed(5)
    found = []
    with torch.no_grad():
        for row in range(rows):
            noise = torch.einsum("djf,ndf->njd", root[row], torch.randn(count, d, outputs, generator=g)).flatten(1)
            found.append(objective.read(head(expectation[row] + noise)).std(0))
    return torch.stack(found)


@pytest.mark.parametrize(
    ("task", "targets"),
    [
        ("node-classification", 2),
        ("node-classification", 5),
        ("node-classification", 40),
        ("node-multilabel", 3),
        ("graph-regression", 2),
    ],
)
def test_the_spread_is_that_of_normal_scores(task, targets):
    head, expectation, covariance, root = setting(targets, rows=12, size=0.1)
    objective, expectation = TASKS[task], 0.3 * expectation
    spread = spread_of(head, objective, expectation, covariance)
    reference = sampled(head, expectation, root, objective, 10_000)
    large = reference > 0.1 * reference.max()
    ratio = spread[large] / reference[large]
    exact = task != "node-classification" or targets == 2
    assert float(ratio.median()) == pytest.approx(1, abs=0.03 if exact else 0.1)
    low, high = ratio.quantile(torch.tensor([0.1, 0.9])).tolist()
    assert (0.95 if exact else 0.6) < low < high < (1.05 if exact else 2.0)  # rather too wide than too narrow


def test_a_probability_of_one_has_no_spread_made_of_rounding():
    head, expectation, covariance, _ = setting(4)
    with torch.no_grad():
        head.mlp.linears()[0].bias[2] = 60.0
    spread = spread_of(head, TASKS["node-classification"], expectation, covariance)
    assert torch.isfinite(spread).all()
    assert float(spread.max()) < 1e-6


@pytest.mark.parametrize("targets", [2, 4])
@pytest.mark.parametrize("gap", [100.0, 373.0, 2600.0])
def test_no_gap_between_scores_makes_a_spread_that_is_no_number(targets, gap):
    """1 - p is 0 in any precision; of two classes both have the same spread."""
    head, expectation, covariance, _ = setting(targets)
    with torch.no_grad():
        head.mlp.linears()[0].bias[1] = gap
    spread = spread_of(head, TASKS["node-classification"], expectation, covariance)
    assert torch.isfinite(spread).all()
    if targets == 2:
        torch.testing.assert_close(spread[:, 0], spread[:, 1], rtol=1e-3, atol=1e-20)


@pytest.mark.parametrize(
    ("task", "targets"),
    [("node-classification", 2), ("node-classification", 4), ("node-multilabel", 3), ("graph-regression", 2)],
)
def test_the_spread_of_a_solved_head_is_that_of_heads_from_its_posterior(task, targets):
    g, objective = torch.Generator().manual_seed(0), TASKS[task]
    h, y = torch.randn(60, 5, generator=g), torch.randn(60, targets, generator=g)
    regression, head = RidgeRegression(h, y), RidgeHead(5, targets)
    head.take(regression.solve(0.1), regression.posterior(0.1))
    at = torch.randn(12, 5, generator=g)
    x = torch.cat([torch.full((12, 1), float(head.level)).sqrt(), (at - head.center) @ head.root], dim=1)
    drawn = torch.einsum("rk,nkj,tj->nrt", x, torch.randn(20_000, x.shape[1], targets, generator=g), head.noise)
    sampled = objective.read(head(at) + drawn).std(0)
    torch.testing.assert_close(head_spread(head, objective, at), sampled, rtol=0.05, atol=0.002)


def test_many_outputs_side_by_side_are_the_same_product_without_every_pair_of_factors():
    """Of 65 outputs the factors of all pairs took a hundred gigabytes."""
    spec = Propagation("gcn", 12, seed=1, jumping="cat")
    stored = torch.rand(13, 3, 4, generator=torch.Generator().manual_seed(0))
    whole, blocked = HopMoments(spec, stored)(stored), HopMoments(spec, stored, most=0)(stored)
    torch.testing.assert_close(blocked, whole, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("jumping", ["last", "cat"])
def test_expectation_and_covariance_are_those_of_the_filter(small_graph, jumping):
    config = Config(num_layers=3, hidden_channels=8, embedding="fixed-random", jumping=jumping, head="ridge")
    model = fit("rap", small_graph, config, 0).model
    embedded = model.embed(small_graph.x, small_graph.operator("gcn"))
    rows = torch.tensor([7, 3, 250])
    expectation, covariance = embedded.expectation_and_covariance(rows)
    stored = PolynomialFilter(embedded.spec, embedded.operator, embedded.h, rows)
    torch.testing.assert_close(expectation, stored.expectation(), rtol=1e-4, atol=1e-6)
    outputs = len(embedded.spec.outputs)
    first, second = torch.triu_indices(outputs, outputs)
    for place in range(3):
        exact = stored.scatter(torch.tensor([place]))[:, first, second].T.float()
        torch.testing.assert_close(covariance[place], exact, rtol=1e-3, atol=1e-6)


def test_predictions_that_are_not_finite_are_refused_by_the_one_predictor():
    """A deep network trained on chains meets a complete graph."""

    def chain(i, n=6):
        pairs = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
        return torch.rand(n, 2, generator=torch.Generator().manual_seed(i)) + i % 2, torch.cat(
            [pairs, pairs.flip(0)], 1
        )

    chains = [chain(i) for i in range(20)]
    model = RAPGraphClassifier(backbone="gin", num_layers=32, head="ridge", search=False).fit(
        chains, [i % 2 for i in range(20)]
    )
    n = 100
    whole = torch.combinations(torch.arange(n)).T
    graph = model._graph([(torch.rand(n, 2), torch.cat([whole, whole.flip(0)], dim=1))])
    with pytest.raises(InputError, match="not finite"):
        model_on(model.model_, graph)(torch.tensor([0]))
