"""Settings for a graph that was never tuned for: a short search, most of it in closed form, on validation.

The propagation (backbone, depth, which layers the head sees) is chosen with the ridge head, which is one solve; then
non-linear embeddings and heads are tried on the best of it. What a candidate costs is estimated by counting operations
and not by the clock, so that the same graph and seed give the same model on any machine.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from rapgnn.device import threads
from rapgnn.errors import InputError
from rapgnn.estimators.average import Trial
from rapgnn.estimators.costs import CANDIDATE, nominal_cost, sparse_training_cost, threads_by_cost, training_cost
from rapgnn.estimators.start import DRAWN, linear_settings, suited
from rapgnn.graph.graph import Graph
from rapgnn.graph.scores import BALANCED, with_goal
from rapgnn.models.config import Config
from rapgnn.prng import Stream, seeded
from rapgnn.sparse import SparseMatrix, nonnegative
from rapgnn.training.fit import Fitted, Reuse, fit_rap
from rapgnn.training.wide import DENSE, feature_cost, matrix_free_cost, too_wide, wide_threads

Settings = dict[str, Any]
OnTrial = Callable[[Settings, float], None]
Stage = Callable[[Graph, Config | None], Iterator[Settings]]

DEPTHS = (1, 2, 3, 4, 6, 8, 12, 16)
CLASS_WEIGHT = "class_weight"  # a candidate's key that is no setting of Config


@dataclass(frozen=True)
class Choice:
    """The best candidate, trained, all that were tried, and the graph with the class weights of the best."""

    fitted: Fitted
    config: Config
    trials: tuple[Trial, ...]
    graph: Graph


class _LateError(Exception):
    """The time is up in the middle of a candidate."""


class _Clock:
    """Seconds since the search began, against its budget."""

    def __init__(self, budget: float | None):
        self.start, self.budget = time.perf_counter(), budget

    def late(self) -> bool:
        return self.budget is not None and time.perf_counter() - self.start > self.budget


def choose(
    graph: Graph,
    base: Config,
    fixed: Settings,
    seed: int,
    time_budget: float | None = None,
    on_trial: OnTrial | None = None,
    reweigh: bool = False,
) -> Choice:
    """Try candidates in order of promise and keep the best on validation.

    Args:
        base: the settings that no candidate changes.
        fixed: settings that are not to be chosen.
        time_budget: begin no further candidate after so many seconds, and give one up that is being trained by
            gradient descent; None: together they shall cost less than one plain GNN's training end to end, by counted
            operations.
        reweigh: whether classes that count the same in sum may be tried too.
    """
    clock = _Clock(time_budget)
    if _wants_sketch(graph, base, fixed):
        with threads(wide_threads(graph.x, graph.edge_index.shape[1])):
            return _choose_wide(graph, base, fixed, seed, clock, on_trial, reweigh)
    allowance = training_cost(graph) if time_budget is None else float("inf")
    *linear, nonlinear = _STAGES[graph.ptr is not None]
    stages = (*linear, *((_reweighed,) if reweigh else ()), nonlinear)
    return _search(graph, base, fixed, seed, clock, on_trial, stages, allowance, Reuse())


def _search(
    graph: Graph,
    base: Config,
    fixed: Settings,
    seed: int,
    clock: _Clock,
    on_trial: OnTrial | None,
    stages: Iterable[Stage],
    allowance: float,
    reuse: Reuse,
) -> Choice:
    """As ``choose``, with these stages and nominal seconds."""
    signed = not nonnegative(graph.x) or (graph.edge_weight is not None and not nonnegative(graph.edge_weight))
    tried: set[tuple[Config, bool]] = set()
    trials: list[Trial] = []
    best: tuple[tuple[float, float], Fitted, Config, Graph] | None = None
    refusal: InputError | None = None

    def on_epoch() -> None:
        if best is not None and clock.late():
            raise _LateError

    for stage in stages:
        for settings in stage(graph, None if best is None else best[2]):
            if best is not None and best[3] is not graph:  # weights that were better stay
                settings = settings | {CLASS_WEIGHT: BALANCED}
            balanced = CLASS_WEIGHT in settings
            plain = {key: value for key, value in settings.items() if key != CLASS_WEIGHT}
            config = base.update(**suited(signed, base, plain | fixed))
            if (config, balanced) in tried or (best is not None and not len(graph.val)):
                continue
            cost = nominal_cost(graph, config)
            if best is not None and (clock.late() or cost > allowance):
                continue
            allowance -= cost
            tried.add((config, balanced))
            began = time.perf_counter()
            on = with_goal(graph, graph.objective.scoring, BALANCED) if balanced else graph
            try:
                with threads_by_cost(cost):
                    fitted = fit_rap(on, config, seed, on_epoch, reuse)
            except InputError as error:  # a candidate that this graph does not admit
                refusal = error.with_traceback(None)  # its frames would keep the candidate's tensors
                continue
            except _LateError:
                continue
            merit = fitted.loop.best or (0.0, 0.0)
            value = graph.objective.merit(merit[0])
            trials.append(Trial(settings | fixed, value, time.perf_counter() - began))
            if best is None or merit > best[0]:
                best = merit, fitted, config, on
            if on_trial:
                on_trial(settings, value)
    if best is None:
        raise refusal or InputError("no candidate could be trained.")
    return Choice(best[1], best[2], tuple(trials), best[3])


def _wants_sketch(graph: Graph, base: Config, fixed: Settings) -> bool:
    """Whether features are so wide that a few deep candidates would take as long as a plain GNN's training."""
    if fixed.get("activation", "identity") != "identity":
        return False
    config = base.update(**({"num_layers": 2} | _LINEAR | fixed))
    if not too_wide(graph, config):
        return False
    return 4 * matrix_free_cost(graph, config.update(**({"num_layers": 8} | fixed))) > sparse_training_cost(graph)


def _choose_wide(
    graph: Graph, base: Config, fixed: Settings, seed: int, clock: _Clock, on_trial: OnTrial | None, reweigh: bool
) -> Choice:
    """Choose the propagation on a sketch of wide features, then solve for the head on the features themselves.

    A sketch loses most of what few hops keep, so where it prefers another candidate the first one is solved for too.
    """
    fixed = fixed | _LINEAR
    shallow, deep = (matrix_free_cost(graph, base.update(**({"num_layers": n} | fixed))) for n in (2, 8))
    allowance = sparse_training_cost(graph) if clock.budget is None else float("inf")
    stages = (*_STAGES[False][:-1], *((_reweighed,) if reweigh else ()))
    sketch, reuse = sketched(graph, seed)
    allowance -= sketching_cost(graph) + shallow + deep
    found = _search(sketch, base, fixed, seed, clock, on_trial, stages, allowance, reuse)
    plain = found.graph is sketch
    goal: Settings = {} if plain else {CLASS_WEIGHT: BALANCED}
    finalists = [_of(found.config) | goal, next(_node_propagations(graph, None)) | goal]
    allowance = shallow + deep + 3 * CANDIDATE
    final = _search(
        graph,
        base,
        fixed,
        seed,
        clock,
        on_trial,
        (lambda *_: iter(finalists),),
        allowance,
        reuse.for_features_of(graph),
    )
    return replace(final, trials=found.trials + final.trials)


def _node_propagations(graph: Graph, best: Config | None) -> Iterator[Settings]:
    for backbone, depth, jumping in (
        ("gcn", 2, "last"),
        ("gcn", 8, "last"),
        ("gcn", 1, "last"),
        ("gcn", 1, "cat"),
        ("gcn", 4, "last"),
        ("sage", 1, "last"),
        ("sage", 2, "last"),
    ):
        yield linear_settings(graph) | {
            "backbone": backbone,
            "num_layers": depth,
            "jumping": jumping,
            "normalize_features": False,
        }


def _graph_propagations(graph: Graph, best: Config | None) -> Iterator[Settings]:
    for depth, pooling in ((3, "sum"), (3, "mean"), (1, "sum"), (5, "sum")):
        yield linear_settings(graph) | {"backbone": "gin", "num_layers": depth, "jumping": "cat", "pooling": pooling}
    if graph.edge_attr is not None:
        for pooling in ("sum", "mean"):
            yield DRAWN | {"backbone": "gine", "num_layers": 3, "jumping": "cat", "pooling": pooling}


def _around(graph: Graph, best: Config | None) -> Iterator[Settings]:
    """One step in every direction from the best so far."""
    if best is None:
        return
    here = _of(best)
    depth = min(DEPTHS, key=lambda d: abs(d - best.num_layers))
    place = DEPTHS.index(depth)
    for other in (*DEPTHS[place + 1 : place + 2], *DEPTHS[max(0, place - 1) : place]):
        yield here | {"num_layers": other}
    if graph.ptr is None:
        yield here | {"normalize_features": not best.normalize_features}
        if best.backbone == "gcn":
            yield here | {"self_loops": not best.self_loops}
        if best.jumping == "cat":
            yield here | {"backbone": "sage" if best.backbone == "gcn" else "gcn"}
    elif best.backbone == "gin":
        yield here | {"jumping": "last" if best.jumping == "cat" else "cat"}


def _nonlinear(graph: Graph, best: Config | None) -> Iterator[Settings]:
    """A random, a trained and a pretrained non-linear map on the best propagation."""
    if best is None:
        return
    here = {key: value for key, value in _of(best).items() if key not in ("activation", "ridge")}
    yield here | DRAWN
    steps: Settings = {"epochs": 100, "patience": 30, "dropout": 0.5, "standardize": True, "hidden_channels": 64}
    if graph.ptr is not None:
        steps |= {"batch_size": 128, "dropout": 0.2, "weight_decay": 1e-4}
    yield here | {"head": "mlp", "head_layers": 2} | steps
    pretrained = {"embedding": "pretrained", "pretrain_epochs": 100, "hidden_channels": 128}
    yield here | pretrained | {"head": "ridge", "ridge": None}
    if graph.edge_attr is not None:
        yield here | pretrained | {"embedding": "pretrained-gnn", "backbone": "gine"} | {"head": "mlp"} | steps


def _reweighed(graph: Graph, best: Config | None) -> Iterator[Settings]:
    """The best so far with classes that count the same in sum; for metrics that rare classes decide."""
    if best is not None:
        yield {name: getattr(best, name) for name in (*_CHOSEN, *_STEPS)} | {CLASS_WEIGHT: BALANCED}


_STAGES = {False: (_node_propagations, _around, _around, _nonlinear), True: (_graph_propagations, _around, _nonlinear)}
_LINEAR: Settings = {"embedding": "identity", "head": "ridge", "activation": "identity"}
_CHOSEN = (
    *("backbone", "num_layers", "jumping", "pooling", "self_loops", "normalize_features", "activation"),
    *("embedding", "embedding_output", "head", "ridge", "hidden_channels"),
)
_STEPS = (
    *("epochs", "patience", "dropout", "standardize", "head_layers"),
    *("batch_size", "weight_decay", "pretrain_epochs"),
)


def _of(config: Config) -> Settings:
    return {name: getattr(config, name) for name in _CHOSEN}


# A wide graph as a search looks at it: the directions in which its features vary most, and as many labelled rows as
# these need.


DIRECTIONS = 256
ROWS = 8 * DIRECTIONS  # training rows that tell the weights of so many directions; and twice as many for validation
COLUMNS = 64  # at a time: of a graph with tens of thousands of nodes they stay near the processor


def sketched(graph: Graph, seed: int) -> tuple[Graph, Reuse]:
    """The graph with its features X as X Q and some of its labelled rows, and what trainings on it share.

    Q is an orthonormal basis of XᵀX R, R random: one step of the randomised range finder (Halko, Martinsson and Tropp,
    2011). Layers are linear in the features, so propagations compare on X Q as they do on X, at a few hundred columns.
    """
    to = {"dtype": graph.x.dtype, "device": "cpu"}
    start = torch.randn(graph.num_features, DIRECTIONS, generator=seeded(seed, Stream.SKETCH), **to).to(graph.y.device)
    turned = graph.x.T
    towards = torch.cat([turned @ (graph.x @ part.contiguous()) for part in start.split(COLUMNS, dim=1)], dim=1)
    with threads(1):  # many small steps
        basis = torch.linalg.qr(towards)[0].contiguous()
    x = graph.x @ basis
    # A row is divided by its own size, not by that of its sketch.
    scaled = x / _sizes(graph).clamp(min=torch.finfo(x.dtype).tiny)
    train, val = _some(graph, graph.train, ROWS), _some(graph, graph.val, 2 * ROWS)
    return replace(graph, x=x, train=train, val=val), Reuse({False: x, True: scaled}, COLUMNS)


def sketching_cost(graph: Graph) -> float:
    """Seconds, by counted operations, that ``sketched`` takes."""
    return feature_cost(graph, 3 * DIRECTIONS) + 4 * graph.num_features * DIRECTIONS**2 / DENSE


def _sizes(graph: Graph) -> Tensor:
    """The sum of magnitudes of every node's features, ``[n, 1]``."""
    x = graph.x
    magnitude = x.with_values(x.values.abs()) if isinstance(x, SparseMatrix) else x.abs()
    return magnitude @ torch.ones(graph.num_features, 1, dtype=x.dtype, device=x.device)


def _some(graph: Graph, rows: Tensor, most: int) -> Tensor:
    """At most so many of the rows, each class in proportion."""
    if len(rows) <= most:
        return rows
    if graph.y.dim() == 1:
        rows = rows[graph.y[rows].argsort(stable=True)]
    return rows[torch.linspace(0, len(rows) - 1, most, dtype=torch.float64, device=rows.device).long()].sort().values
