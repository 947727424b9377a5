"""Choose what the user left open, train, and give the head every labelled row there is."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from rapgnn.estimators.select import OnTrial, Settings, Trial, choose
from rapgnn.estimators.start import usual_embedding
from rapgnn.graph.graph import Graph
from rapgnn.graph.splits import hold_out
from rapgnn.layers.ridge import RidgeHead
from rapgnn.models.config import Config
from rapgnn.training.fit import Fitted, fit_rap


@dataclass(frozen=True)
class Trained:
    """The trained model, the graph with the splits it was trained on, the candidates, and the metric on validation."""

    fitted: Fitted
    graph: Graph
    trials: tuple[Trial, ...]
    validation_score: float


def train(
    graph: Graph,
    start: Config,
    fixed: Settings,
    seed: int,
    device: str,
    *,
    search: bool,
    time_budget: float | None = None,
    on_trial: OnTrial | None = None,
    on_epoch: Callable[[], None] | None = None,
) -> Trained:
    """Train on a checked graph.

    Args:
        start: the settings that nothing else decides.
        fixed: those that the user has set.
        search, time_budget: as in the estimators.
        on_trial, on_epoch: told of every candidate; called after every epoch where there is no search.
    """
    given, graph = graph.to(device), hold_out(graph, seed).to(device)
    if search:
        found = choose(graph, start, fixed, seed, time_budget, on_trial)
        fitted, config, trials = found.fitted, found.config, found.trials
    else:
        config = start.update(**({"embedding": usual_embedding(graph)} | fixed))
        fitted, trials = fit_rap(graph, config, seed, on_epoch), ()
    merit = fitted.loop.best
    if len(graph.train) < len(given.train) and config.head == "ridge":
        fitted = _with_all_rows(fitted, given, config, seed)
        note = "the settings chosen, the head was solved again with the held-out rows too (see validation_score_)."
        graph = replace(given, notes=(*graph.notes, note))
    score = float("nan") if merit is None else graph.objective.merit(merit[0])
    return Trained(fitted, graph, trials, score)


def _with_all_rows(fitted: Fitted, graph: Graph, config: Config, seed: int) -> Fitted:
    """A head in closed form needs no validation rows once its penalty is chosen: solve again with all training rows."""
    chosen = fitted.model.head
    assert isinstance(chosen, RidgeHead)
    again = fit_rap(graph, config.update(ridge=chosen.penalty), seed)
    again.model.head.sharpness.copy_(chosen.sharpness)  # type: ignore[union-attr]
    return again
