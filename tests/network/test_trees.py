"""Boosted trees: the tensors give what scikit-learn gives, and survive being stored."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from rapgnn import InputError, RAPNodeClassifier, load_model
from rapgnn.network.trees import ABSENT, TreeHead

SETTINGS = {"max_iter": 12, "max_leaf_nodes": 6}


def rows(count: int = 300) -> torch.Tensor:
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(count, 4)).astype(np.float32))
    x[::7, 1] = torch.nan
    return x


def sum_of(x: torch.Tensor) -> torch.Tensor:
    return (x[:, 0] * x[:, 2]).add(x[:, 1].nan_to_num(3.0)).add(0.3 * x[:, 3])


@pytest.mark.parametrize("classes", [2, 3])
def test_classes_have_scikit_learns_probabilities(classes):
    x = rows()
    y = torch.bucketize(sum_of(x), torch.tensor([0.0, 1.5])).clamp(max=classes - 1)
    scores = TreeHead(4, classes).fit(x, y, **SETTINGS)(x)
    model = HistGradientBoostingClassifier(early_stopping=False, random_state=0, **SETTINGS).fit(x.numpy(), y.numpy())
    np.testing.assert_allclose(scores.softmax(1).numpy(), model.predict_proba(x.numpy()), atol=1e-5)


def test_numbers_and_weights_are_scikit_learns():
    x, weights = rows(), torch.arange(300.0) % 3
    y = torch.stack([sum_of(x), 100 + x[:, 0]], dim=1)
    y[:40, 1] = torch.nan
    found = TreeHead(4, 2).fit(x, y, weights, metric="rmse", **SETTINGS)(x)
    for column, known in ((0, slice(None)), (1, slice(40, None))):
        model = HistGradientBoostingRegressor(early_stopping=False, random_state=0, **SETTINGS)
        model.fit(x[known].numpy(), y[known, column].numpy(), sample_weight=weights[known].numpy())
        np.testing.assert_allclose(found[:, column].numpy(), model.predict(x.numpy()), rtol=1e-5, atol=1e-5)


def test_labels_side_by_side_and_classes_that_no_row_has():
    x = rows()
    y = torch.stack([(x[:, 0] > 0).float(), torch.ones(300), torch.zeros(300)], dim=1)
    scores = TreeHead(4, 3).fit(x, y, metric="rocauc", **SETTINGS)(x)
    assert ((scores[:, 0] > 0) == (x[:, 0] > 0)).all()
    assert (scores[:, 1] >= 0).all()
    assert (scores[:, 2] == ABSENT).all()
    scores = TreeHead(4, 5).fit(x, (x[:, 0] > 0).long() * 3, **SETTINGS)(x)
    assert set(scores.argmax(1).tolist()) == {0, 3}
    assert (scores[:, [1, 2, 4]] == ABSENT).all()


def test_stored_and_in_parts_the_scores_are_the_same():
    x = rows()
    head = TreeHead(4, 2).fit(x, (sum_of(x) > 0).long(), **SETTINGS)
    again = TreeHead(4, 2, nodes=len(head.feature), trees=len(head.root))
    again.load_state_dict(head.state_dict())
    expected = head(x)
    assert torch.equal(again(x, at_once=17), expected)
    assert again(x[:0]).shape == (0, 2)


def walked(head: TreeHead, x: torch.Tensor) -> torch.Tensor:
    """The scores by walking down every tree, node after node."""
    scores = head.base.double().repeat(len(x), 1)
    for root, output in zip(head.root.tolist(), head.output.tolist(), strict=True):
        for row, values in enumerate(x):
            at = root
            while head.left[at] != at:
                value = values[head.feature[at]]
                left = head.missing_left[at] if value.isnan() else value <= head.threshold[at]
                at = int(head.left[at] if left else head.right[at])
            scores[row, output] += head.value[at]
    return scores.to(x.dtype)


@pytest.mark.parametrize("metric", ["accuracy", "rmse"])
@pytest.mark.parametrize("leaves", [2, 31])
def test_rows_come_to_the_leaves_that_a_walk_comes_to(leaves, metric):
    x = rows(120)
    x[5] = torch.tensor([torch.inf, -torch.inf, torch.nan, 0.0])
    y = torch.bucketize(sum_of(x), torch.tensor([0.0, 1.5])).nan_to_num()
    target = y if metric == "accuracy" else y[:, None].float()
    head = TreeHead(4, 3 if metric == "accuracy" else 1)
    head.fit(x[6:], target[6:], metric=metric, max_iter=30, max_leaf_nodes=leaves, min_samples_leaf=3)
    assert torch.equal(head(x, at_once=50), walked(head, x))


@pytest.mark.parametrize(
    "damage",
    [
        lambda head: head.left.fill_(0),  # a walk without an end
        lambda head: head.right.add_(10_000),
        lambda head: head.feature.fill_(4),
        lambda head: head.root.add_(1),
    ],
)
def test_trees_that_are_none_are_refused(damage):
    x = rows()
    head = TreeHead(4, 2).fit(x, (sum_of(x) > 0).long(), **SETTINGS)
    damage(head)
    with pytest.raises(InputError, match="damaged"):
        head(x)


def test_trees_of_more_leaves_than_a_word_has_bits_are_refused():
    x = rows(2000)
    head = TreeHead(4, 2).fit(x, (sum_of(x) > 0).long(), max_iter=2, max_leaf_nodes=100, min_samples_leaf=2)
    with pytest.raises(InputError, match="62 leaves"):
        head(x)


def test_a_value_on_the_threshold_goes_the_same_way():
    x = torch.tensor([[0.1], [0.3]]).repeat(40, 1)
    head = TreeHead(1, 2).fit(x, (x[:, 0] > 0.2).long(), max_iter=3, min_samples_leaf=1)
    model = HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=1, early_stopping=False, random_state=0)
    model.fit(x.numpy(), (x[:, 0] > 0.2).numpy())
    edge = torch.linspace(0.1, 0.3, 2001)[:, None]
    np.testing.assert_allclose(head(edge).softmax(1).numpy(), model.predict_proba(edge.numpy()), atol=1e-6)


@pytest.mark.parametrize("search", [False, True])
def test_nodes_have_trees_as_their_head(search, small_graph, tmp_path):
    model = RAPNodeClassifier(head="trees", search=search).fit(small_graph)
    assert {trial.settings["head"] for trial in model.trials_} == {"trees"}
    assert model.score(small_graph, split="test") > 0.7
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(
        load_model(tmp_path / "m").predict_proba(small_graph), model.predict_proba(small_graph)
    )


def test_trees_are_grown_on_fixed_hops(small_graph):
    with pytest.raises(InputError, match="fixed"):
        RAPNodeClassifier(head="trees", coefficients="random").fit(small_graph)
