"""Candidates for an average: RAP networks and random networks, each with a head that is solved or trained."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from rapgnn.errors import InputError
from rapgnn.estimators.judge import LEFT_OUT_ROWS, judged_by_left_out
from rapgnn.graph.graph import Graph
from rapgnn.graph.scores import BALANCED, with_goal
from rapgnn.layers.heads import Head
from rapgnn.layers.mlp import dropout_generator
from rapgnn.layers.ridge import RidgeHead, RidgeSolution
from rapgnn.layers.ridge_path import PENALTIES, RidgePath
from rapgnn.models.average import TreatedConfig, TreatedRAP
from rapgnn.models.known_labels import KnownLabels, SeenNodes, known_shape
from rapgnn.models.net_config import NetConfig
from rapgnn.models.random_net import RandomNet
from rapgnn.prng import Stream
from rapgnn.training.fit import Reuse, prepare_rapgnn
from rapgnn.training.head import train_on_features
from rapgnn.training.predict import hops_for
from rapgnn.training.solve import RIDGES, DirectProblem, ridge_targets, row_weights

BATCH, STEPS, PATIENCE = 512, 600, 12  # of heads that are trained
RATE, DECAY = 5e-3, 1e-4
POOLS, POOLED_BYTES = ("sum", "mean"), 256 << 20  # kept of graphs; where they take more, they are dropped
TreatedOf = dict[tuple[str, int], tuple[dict[str, Any], Graph, Reuse]]


class NetCandidate:
    """A random network, its head not yet chosen.

    Args:
        kept: what other networks with this seed have of these rows: hops, or sums over the nodes of graphs.
        first: the network before it, finished, where the settings name one.
        taught: what the rows shall give ``[rows, classes]``, where that is not their labels.
    """

    penalties: tuple[float, ...] = PENALTIES

    def __init__(
        self,
        graph: Graph,
        config: NetConfig,
        seed: int,
        kept: dict[Any, Any],
        first: RandomNet | None = None,
        taught: Tensor | None = None,
    ):
        self.settings: dict[str, Any] = config.to_dict() | ({} if taught is None else {"taught": True})
        self.config, self.seed, self.graph = config, seed, graph
        # Such a head is not solved again: it needs rows to stop by, or it learned from another network.
        self.final = config.hidden > 0 or config.first is not None or taught is not None
        channels = graph.num_features, graph.num_outputs
        shape = {"edge_channels": graph.num_edge_features, "known": known_shape(graph) if config.known else (0, 0)}
        shape["nodes"] = graph.num_nodes if config.identity else 0
        net = RandomNet(*channels, **shape, seed=seed, config=config).to(graph.y.device)
        if graph.objective.metric == "rmse":
            net.output.fit(graph.y[graph.train])
        key = "treatment", config.features, config.sketch
        if key not in kept:
            net.treatment.fit(graph.x)
            kept[key] = net.treatment.state_dict()
        net.treatment.load_state_dict(kept[key])
        if first is not None:
            net.first = first
        if config.known:
            if "known" not in kept:
                kept["known"] = KnownLabels.of(graph)
            net.known = kept["known"]
        if config.identity:
            if "nodes" not in kept:
                kept["nodes"] = SeenNodes.of(graph, torch.arange(graph.num_nodes, device=graph.y.device))
            net.nodes = kept["nodes"]
        h, self.val = seen_rows(net, graph, kept)
        self.net, self._solved = net, dict[float, RidgeSolution]()
        self.path: RidgePath | None = None
        if config.hidden:
            self.penalties = (0.0,)
            train_on(net, h, self.val, graph)
            return
        if taught is not None:
            counts = graph.objective.class_weight
            weights = (
                None if counts is None else taught @ torch.tensor(counts, dtype=taught.dtype, device=taught.device)
            )
            self.path = RidgePath(h, 2 * taught - 1, weights, False)
            return
        self.path = RidgePath(h, ridge_targets(net, graph, h.dtype), row_weights(graph), judged_by_left_out(graph))

    def scores(self, penalty: float, left_out: bool) -> Tensor:
        if self.config.hidden:
            with torch.no_grad():
                return self.net.output(self.net.head(self.val))
        solution = self._solution(penalty)
        raw = [self.val.double() @ solution.weight + solution.bias]
        if left_out:
            raw.append(self._path().left_out(penalty))
        return self.net.output(torch.cat(raw).nan_to_num().to(self.val.dtype))

    def finished(self, penalty: float, sharpness: float) -> nn.Module:
        head = self.net.head
        if isinstance(head, RidgeHead):
            head.take(self._solution(penalty))
        if self.net.output.plain:
            self.net.sharpness.fill_(sharpness)
        return self.net.eval()

    def forget_rows(self) -> None:
        self.path, self.val = None, self.val[:0].clone()

    def _path(self) -> RidgePath:
        assert self.path is not None, "the rows were forgotten"
        return self.path

    def _solution(self, penalty: float) -> RidgeSolution:
        if penalty not in self._solved:
            self._solved[penalty] = RidgeSolution(penalty, *self._path().solve(penalty))
        return self._solved[penalty]


def seen_rows(net: RandomNet, graph: Graph, kept: dict[Any, Any]) -> tuple[Tensor, Tensor]:
    """What the head sees of the training rows, which the network learns of, and of the validation rows.

    Networks on graphs that differ in the pooling alone share one pass: sums and means are kept.
    """
    if graph.ptr is None:
        hops = hops_for(net, graph, kept)
        h = net.fit_features(graph, graph.train, hops)
        return net.fit_seen(h), net.represent(graph, graph.val, hops)
    key = "pooled", net.config.rows_seen
    if key not in kept:
        before = [k for k in kept if k[0] == "pooled"]
        if sum(t.nbytes for k in before for pair in kept[k][2].values() for t in pair) > POOLED_BYTES:
            for k in before:
                del kept[k]
        pools = ("sum",) if net.config.colours else POOLS
        parts = net.pooled(graph, graph.train, pools, learn=True), net.pooled(graph, graph.val, pools)
        kept[key] = net.layers, net.lift, dict(zip(pools, zip(*parts, strict=True), strict=True))
    net.layers, net.lift, pooled = kept[key]
    train, val = (net.read_pooled(rows) for rows in pooled[net.config.pools])
    return net.fit_seen(train), net.seen(val)


def train_on(net: RandomNet, h: Tensor, held: Tensor, graph: Graph) -> None:
    """Train the head on the representations of the training rows; validation chooses the epoch."""
    head = net.head
    assert isinstance(head, Head)
    noise = dropout_generator(net.seed, Stream.DROPOUT, h.device, 8 * head.mlp.mask_words(min(BATCH, len(h))))
    how = {"epochs": trained_epochs(len(h)), "lr": RATE, "weight_decay": DECAY, "patience": PATIENCE}
    train_on_features(head, graph, h, held, net.output, net.seed, noise, BATCH, **how)


def trained_epochs(rows: int) -> int:
    """So many that there are about as many steps for few rows as for many."""
    return max(12, min(150, STEPS * BATCH // max(1, rows)))


class RapCandidate:
    """A RAP network on treated features, whose head sees the exact expectation and variance of its draws.

    Args:
        kept: treated features and their hops, by treatment.
    """

    penalties = RIDGES
    final = False

    def __init__(self, graph: Graph, config: TreatedConfig, seed: int, kept: TreatedOf):
        self.settings: dict[str, Any] = config.to_dict()
        self.config, self.graph = config, graph
        channels = graph.num_features, graph.num_outputs
        self.model = TreatedRAP(*channels, edge_channels=graph.num_edge_features, seed=seed, config=config)
        self.model.to(graph.y.device)
        key = config.features, config.sketch
        if key not in kept:
            self.model.treatment.fit(graph.x)
            kept[key] = self.model.treatment.state_dict(), self.model.inputs(graph), Reuse()
        learned, treated, reuse = kept[key]
        self.model.treatment.load_state_dict(learned)
        treated, network = replace(graph, x=treated.x), self.model.network
        cache = reuse.hops(treated, config.network)
        treated, operator = reuse.inputs(treated, config.network)
        prepare_rapgnn(network, treated, operator)
        rows = len(graph.train) + len(graph.val)
        embedded = network.embed(treated.x, operator, cache=cache, rows=rows)
        if not embedded.has_expectation:
            raise InputError(f"this candidate has no exact mean: {embedded.reason}.")
        self.problem: DirectProblem | None = DirectProblem(network, treated, embedded)
        self._solved: dict[float, RidgeSolution] = {}

    def scores(self, penalty: float, left_out: bool) -> Tensor:
        network, problem = self.model.network, self._problem()
        head = self._take(penalty, 1.0)
        raw = [problem.held_out(head)]
        if left_out:
            raw.append(problem.left_out(penalty).to(raw[0].dtype))
        return network.output(torch.cat(raw).nan_to_num())

    def finished(self, penalty: float, sharpness: float) -> nn.Module:
        self._take(penalty, sharpness)
        plain = self.config.features == "none" and not self.config.sketch
        return (self.model.network if plain else self.model).eval()

    def _take(self, penalty: float, sharpness: float) -> RidgeHead:
        head = self.model.network.head
        assert isinstance(head, RidgeHead)
        if penalty not in self._solved:
            self._solved[penalty] = self._problem().solve(penalty)
        head.take(self._solved[penalty])
        head.sharpness.fill_(sharpness)
        return head

    def forget_rows(self) -> None:
        self.problem = None

    def _problem(self) -> DirectProblem:
        assert self.problem is not None, "the rows were forgotten"
        return self.problem


def needs_no_validation(graph: Graph) -> bool:
    """Whether training rows can judge by themselves, each left out in turn."""
    return 0 < len(graph.train) <= LEFT_OUT_ROWS


def with_all_rows(
    candidate: NetCandidate | RapCandidate, graph: Graph, treated: TreatedOf, kept: dict[Any, Any]
) -> NetCandidate | RapCandidate:
    """The same candidate on another split of the same graph; ``treated`` and ``kept`` are of that split and seed."""
    if candidate.graph.objective.class_weight != graph.objective.class_weight:  # one of those with other weights
        graph = with_goal(graph, graph.objective.scoring, BALANCED)
    if isinstance(candidate, NetCandidate):
        return NetCandidate(graph, candidate.config, candidate.seed, kept)
    return RapCandidate(graph, candidate.config, candidate.model.seed, treated)
