"""How many members an average has: more as long as the rows that judge cannot tell it from the best."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rapgnn.estimators.chosen import POOL, chosen_members, together
from rapgnn.estimators.judge import Judge, Verdict
from rapgnn.graph.graph import Graph, make_graph


def judged_by(rows: int, task: str = "classification") -> Judge:
    rng = np.random.default_rng(0)
    n = rows + 10
    y = np.arange(n) % 2 if task == "classification" else rng.standard_normal(n).astype(np.float32)
    rows_of = np.split(np.arange(n), [10, n])
    graph: Graph = make_graph(np.ones((n, 1)), np.zeros((2, 0), int), y, *rows_of, [], task=task)
    return Judge(graph, graph.objective)


def verdict(judge: Judge, right: float, seed: int) -> Verdict:
    """Probabilities that give the true class about as much as ``right``, with chance in them."""
    rng = np.random.default_rng(seed)
    p = torch.from_numpy(np.clip(right + 0.2 * rng.standard_normal(len(judge.y)), 0.02, 0.98)).float()
    both = torch.stack([torch.where(judge.y == 0, p, 1 - p), torch.where(judge.y == 1, p, 1 - p)], dim=1)
    merit, loss = judge.of(both.log())
    return Verdict(None, 1.0, 1.0, merit, loss, both, merit)  # type: ignore[arg-type]


def test_few_rows_cannot_tell_so_the_average_is_large():
    judge = judged_by(100)
    seen = [verdict(judge, 0.6, seed) for seed in range(9)]
    assert len(chosen_members(seen, judge, False)) == 8


def test_a_member_that_is_clearly_better_stays_alone():
    judge = judged_by(1000)
    seen = [verdict(judge, 0.95, 0), *(verdict(judge, 0.4, seed) for seed in range(1, 8))]
    members = chosen_members(seen, judge, False)
    score = judge.validation_score(together(members, judge))
    assert members == seen[:1]
    assert score == judge.validation_score(seen[0].probabilities.log())


def test_a_member_that_errs_elsewhere_joins_before_more_of_the_same():
    judge = judged_by(600)
    same = verdict(judge, 0.62, 0)
    other = verdict(judge, 0.6, 1)
    seen = [same, *(replace(same, probabilities=same.probabilities.clone()) for _ in range(3)), other]
    members = chosen_members(seen, judge, False)
    assert members[0] is same
    assert members[1] is other


def test_past_the_best_sixteen_none_joins():
    judge = judged_by(600)
    same, other = verdict(judge, 0.62, 0), verdict(judge, 0.6, 1)
    copies = [replace(same, probabilities=same.probabilities.clone()) for _ in range(POOL)]
    assert any(member is other for member in chosen_members([*copies[1:], other], judge, False))
    assert not any(member is other for member in chosen_members([*copies, other], judge, False))


def test_the_metric_of_a_user_decides_by_itself():
    judge = judged_by(400)
    seen = [verdict(judge, 0.7 - 0.05 * seed, seed) for seed in range(6)]
    members = chosen_members(seen, judge, True)
    score = judge.validation_score(together(members, judge))
    order = sorted(seen, key=lambda v: -v.merit)
    reached = [
        judge.validation_score(torch.stack([v.probabilities for v in order[:size]]).mean(0).log())
        for size in (1, 2, 3, 4, 6)
    ]
    assert score == max(reached)
    assert len(members) in (1, 2, 3, 4, 6)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_losses_by_row_have_the_loss_as_their_mean(task):
    judge = judged_by(150, task)
    scores = torch.randn(150, 2 if task == "classification" else 1, generator=torch.Generator().manual_seed(0))
    assert float(judge.by_row(scores).mean()) == pytest.approx(judge.of(scores)[1], rel=1e-5)


def test_penalties_of_rocauc_are_chosen_by_the_order_of_rows():
    judge = judged_by(30)
    better, sharper = (
        replace(verdict(judge, 0.6, 1), merit=merit, loss=loss) for merit, loss in ((0.8, 0.9), (0.7, 0.5))
    )
    assert not judge._better(better, sharper)
    judge.objective = replace(judge.objective, metric="rocauc")
    assert judge._better(better, sharper)
