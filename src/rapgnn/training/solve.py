"""Phase 2 in closed form: the ridge head on the exact expectation and variance of the representation."""

import time

from torch import Tensor, nn

from rapgnn.device import threads_for
from rapgnn.errors import InputError
from rapgnn.graph.graph import Graph
from rapgnn.layers.ridge import RidgeHead
from rapgnn.models.rapgnn import RAPGNN
from rapgnn.propagation.engine import EmbeddedGraph, PolynomialRepresentation
from rapgnn.training.loop import Loop, OnEpoch

RIDGES = tuple(10.0**k for k in range(-4, 3))  # penalties to choose from on validation


def solve_head(model: RAPGNN, head: RidgeHead, graph: Graph, embedded: EmbeddedGraph, on_epoch: OnEpoch | None) -> Loop:
    """Phase 2 in closed form, on the exact mean and variance of the representation."""
    if not embedded.has_expectation:
        raise InputError(f"the ridge head needs the exact mean and variance, which are not at hand: {embedded.reason}.")
    start = time.perf_counter()
    representation = embedded.rows(graph.train, expect=graph.val)
    if embedded.constant:
        mean = next(representation.draws([0]))
        nothing = mean.new_zeros(mean.shape[1], 1, 1)

        def scatter(rows: Tensor) -> Tensor:
            return nothing
    else:
        assert isinstance(representation, PolynomialRepresentation)
        mean, scatter = representation.filter.expectation(), representation.filter.scatter
    y = model.output.standardise(graph.y[graph.train])
    if graph.objective.metric == "rmse":
        targets = y
    else:
        targets = 2 * (nn.functional.one_hot(y, graph.num_outputs).to(mean.dtype) if y.dim() == 1 else y) - 1
    expected, objective, y_val = representation.expected, graph.objective, graph.y[graph.val]
    assert expected is not None

    def merit() -> tuple[float, float]:
        scores = model.output(head(expected))
        return objective.merit(objective.score(scores, y_val)), -float(objective.loss(scores, y_val))

    ridge = model.config.ridge
    with threads_for(mean.numel() * min(mean.shape)):
        if ridge is None and len(graph.val):
            head.fit(mean, scatter, targets, RIDGES, merit)
        else:
            head.fit(mean, scatter, targets, 1.0 if ridge is None else ridge)
    history = []
    if len(graph.val):
        if objective.metric != "rmse":
            head.fit_temperature(objective, expected, y_val)
        history = [objective.score(model.output(head(expected)), y_val)]
    if on_epoch:
        on_epoch()
    best = merit() if len(graph.val) else None
    return Loop(0, 1, 1e3 * (time.perf_counter() - start), 0.0, history, best=best)
