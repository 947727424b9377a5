"""A candidate: the settings of one network, fitted, with a head for any penalty."""

from typing import Any

import torch
from torch import Tensor, nn

from rapgnn.device import threads_for
from rapgnn.graph.graph import Graph
from rapgnn.graph.rows import BALANCED, row_weights, with_goal
from rapgnn.network.config import Config
from rapgnn.network.heads import PENALTIES, Head, Posterior, RidgeHead, RidgeRegression, RidgeSolution, same_gaps
from rapgnn.network.known_labels import KnownLabels, SeenNodes, known_shape
from rapgnn.network.mlp import dropout_generator
from rapgnn.network.network import HopNetwork, Network, pool_of, walk_of
from rapgnn.network.rapgnn import RAPGNN
from rapgnn.network.trees import TreeHead
from rapgnn.prng import Stream
from rapgnn.search.preset import PRESET
from rapgnn.training.fit import embed_trained, equations_of, fit_head, ridge_targets, train_on_features
from rapgnn.training.loop import schedule
from rapgnn.training.predict import Shared, hops_for, once

POOLS, POOLED_BYTES = ("sum", "mean"), 256 << 20  # stored of graphs; where they take more, they are dropped


class Candidate:
    """A network, its head not yet chosen.

    Args:
        shared: what other candidates have of these rows: scalings, hops, or sums over the nodes of graphs.
        previous: the network before it, finished, where the settings name one.
        pseudo_labels: what the rows shall give ``[rows, classes]``, where that is not their labels.
    """

    def __init__(
        self,
        graph: Graph,
        config: Config,
        seed: int,
        shared: Shared,
        previous: Network | None = None,
        pseudo_labels: Tensor | None = None,
    ):
        self.config, self.seed, self.graph = config, seed, graph
        self.settings: dict[str, Any] = config.to_dict() | ({} if pseudo_labels is None else {"self_training": True})
        solved = config.head == "ridge"
        self.penalties: tuple[float, ...] = (
            (PENALTIES if config.ridge is None else (config.ridge,)) if solved else (0.0,)
        )
        # Such a head is not solved again: it needs rows to stop by, or it learned from another network.
        self.final = not solved or config.previous is not None or pseudo_labels is not None
        self._solutions: dict[float, RidgeSolution] = {}
        self._posteriors: dict[float, Posterior | None] = {}
        self._regression: RidgeRegression | None = None
        self._held_out: Any = None  # the representation of the validation rows
        self._scores: Tensor | None = None  # of the validation rows, by a head that is trained
        self.network: Network
        if config.of_layers:
            self._fit_random(shared)
        else:
            self._fit_hops(shared, previous, pseudo_labels)

    def _fit_random(self, shared: Shared) -> None:
        """RAP-GNN: the head sees the exact expectation and variance of its draws, or is trained on draws."""
        graph, config = self.graph, self.config
        sizes = {"edge_channels": graph.num_edge_features, "seed": self.seed, "config": config}
        network = RAPGNN(graph.num_features, out_channels=graph.num_outputs, **sizes).to(graph.y.device)
        if graph.ptr is None and not config.normalize_features:
            self._learn_scaling(network, shared)
        cache = hops_for(network, graph, shared, labelled_rows(graph, shared))
        seen, operator = network.inputs(graph, learn=True, hops=cache)
        embedded, self.network = embed_trained(network, seen, operator, cache), network
        if isinstance(network.head, RidgeHead):
            equations, self._held_out = equations_of(network, seen, embedded, many=judged_by_left_out(graph))
            self._regression = equations.regression
        else:
            self._scores = fit_head(network, seen, operator, embedded).predict(graph.val).scores

    def _fit_hops(self, shared: Shared, previous: Network | None, pseudo_labels: Tensor | None) -> None:
        graph, config = self.graph, self.config
        if pseudo_labels is not None and ("learned", config) in shared:
            network, regression, self._held_out = shared["learned", config]
            self.network, self._regression = network.twin(), regression.with_targets(2 * pseudo_labels - 1)
            return
        sizes: dict[str, Any] = {"known": known_shape(graph) if config.known_labels else (0, 0)}
        apart = config.node_columns and not config.relations  # columns for every row of a graph without types
        sizes |= {"edge_channels": graph.num_edge_features, "nodes": graph.num_nodes if apart else 0}
        sizes["types"] = None if graph.typed is None else graph.typed.described()
        network = HopNetwork(graph.num_features, graph.num_outputs, **sizes, seed=self.seed, config=config)
        self.network = network.to(graph.y.device)
        network.learn_targets(graph)
        self._learn_scaling(network, shared)
        if isinstance(previous, HopNetwork):
            network.previous = previous
        if config.known_labels:
            network.known = once(shared, "known", lambda: KnownLabels.of(graph))
        if apart:
            every = torch.arange(graph.num_nodes, device=graph.y.device)
            network.nodes = once(shared, "nodes", lambda: SeenNodes.of(graph, every))
        h, self._held_out = seen_rows(network, graph, shared)
        if isinstance(network.head, TreeHead):
            y, objective = network.output.standardise(graph.y[graph.train]), graph.objective
            least = max(1, min(20, len(h) // 10))  # rows of a leaf: of few labelled rows a few are much
            network.head.fit(h, y, row_weights(graph), self.seed, objective.metric, min_samples_leaf=least)
            self._scores = network.scores(self._held_out)
            return
        if isinstance(network.head, Head):
            self._scores = train_on_rows(network, h, self._held_out, graph)
            return
        if pseudo_labels is None:
            targets, weights = ridge_targets(network.output, graph, h.dtype), row_weights(graph)
        else:
            targets, weights = 2 * pseudo_labels - 1, row_weights(graph, pseudo_labels)
        left_out = judged_by_left_out(graph) and pseudo_labels is None
        self._regression = RidgeRegression(h, targets, self._scatter(targets, weights, shared), weights, many=left_out)
        before = sum(shared[key][0].channels for key in shared if key[0] == "learned")
        if pseudo_labels is not None and weights is None and 4 * len(h) * (before + h.shape[1]) <= PRESET.stored[0]:
            shared["learned", config] = self.network, self._regression, self._held_out  # for the next pseudo-labels

    def _scatter(self, targets: Tensor, weights: Tensor | None, shared: Shared) -> list[Tensor] | None:
        """The variance of what the head sees, where coefficients along relations are random, as the ridge takes it."""
        if self.config.coefficients != "random":
            return None
        network, graph, found = self.network, self.graph, list[Tensor]()
        assert isinstance(network, HopNetwork)
        hops: Any = hops_for(network, graph, shared, labelled_rows(graph, shared))
        variance = hops.variance(self.config, graph.train) * network.standard.scale.double().square()
        for _, known in same_gaps(targets):
            w = torch.ones(len(variance)) if weights is None else weights
            found.append((variance * w.to(variance)[:, None])[known].sum(0)[:, None, None])
        return found

    def _learn_scaling(self, network: Network, shared: Shared) -> None:
        config = self.config

        def learned() -> nn.Module:
            network.learn_columns(self.graph)
            return network.scaling

        key = ("scaling", config.scaling, config.components)
        key = (*key, *walk_of(config)) if config.relations else key
        network.scaling = once(shared, key, learned)

    def scores(self, penalty: float, left_out: bool) -> Tensor:
        """Scores of the validation rows, and behind them of the training rows, each left out in turn."""
        if self._scores is not None:
            return self._scores
        solution, regression = self._solution(penalty), self._regression
        raw = [(self._held_out @ solution.weight.to(self._held_out.dtype)).double() + solution.bias]
        if left_out:
            assert regression is not None
            raw.append(regression.left_out(penalty))
        return self.network.output(torch.cat(raw).nan_to_num().to(self._held_out.dtype))

    def finished(self, penalty: float, factor: float) -> Network:
        head = self.network.head
        if isinstance(head, RidgeHead):
            head.take(self._solution(penalty), self._posterior(penalty))
        if self.network.output.plain:
            head.multiply(factor / head.inverse_temperature)
        return self.network.eval()

    def forget_rows(self, penalty: float | None = None) -> None:
        """Keep the heads that were solved, and let go of the representation of the rows they were solved on.

        Args:
            penalty: of the head that may be a member's; None: it would be solved again for that.
        """
        if penalty is not None:
            self._posterior(penalty)
        self._regression, self._held_out = None, None

    def on(self, graph: Graph, shared: Shared) -> "Candidate":
        """The same candidate on another split of the same graph; ``shared`` is of that split and seed."""
        if self.graph.objective.class_weight != graph.objective.class_weight:  # one of those with other weights
            graph = with_goal(graph, graph.objective.scoring, BALANCED)
        return Candidate(graph, self.config, self.seed, shared)

    def _posterior(self, penalty: float) -> Posterior | None:
        if penalty not in self._posteriors and self._regression is not None:
            self._posteriors[penalty] = self._regression.posterior(penalty)
        return self._posteriors.get(penalty)

    def _solution(self, penalty: float) -> RidgeSolution:
        if penalty not in self._solutions:
            assert self._regression is not None, "the rows were forgotten"
            self._solutions[penalty] = self._regression.solve(penalty)
        return self._solutions[penalty]


def judged_by_left_out(graph: Graph) -> bool:
    """Whether training rows judge too, each left out in turn: where they are few, and validation rows are."""
    return len(graph.train) <= PRESET.left_out_rows and len(graph.val) < PRESET.enough_validation


def labelled_rows(graph: Graph, shared: Shared) -> Tensor:
    """The training and validation rows that the candidates with these shared things began with."""
    return once(shared, "rows", lambda: torch.cat([graph.train, graph.val]))


def seen_rows(network: HopNetwork, graph: Graph, shared: Shared) -> tuple[Tensor, Tensor]:
    """What the head sees of the training rows, which the network learns of, and of the validation rows.

    Networks on graphs that differ in the pooling alone share one pass: sums and means are stored.
    """
    if graph.ptr is None:
        hops = hops_for(network, graph, shared, labelled_rows(graph, shared))
        h = network.representation(graph, graph.train, hops, learn=True)
        return network.fit_seen(h), network.represent(graph, graph.val, hops)
    config = network.config
    plain = {"pooling": "sum", "standardize": True, "kernel": "none", "landmarks": 0, "bandwidth": 1.0, "trend": False}
    key = "pooled", config.update(**plain)
    if key not in shared:
        before = [k for k in shared if k[0] == "pooled"]
        if sum(t.nbytes for k in before for pair in shared[k][2].values() for t in pair) > POOLED_BYTES:
            for k in before:
                del shared[k]
        pools = ("sum",) if config.coefficients == "colours" else POOLS
        parts = network.pooled(graph, graph.train, pools, learn=True), network.pooled(graph, graph.val, pools)
        shared[key] = network.layers, network.units, dict(zip(pools, zip(*parts, strict=True), strict=True))
    network.layers, network.units, pooled = shared[key]
    train, val = (network.read_pooled(rows) for rows in pooled[pool_of(config)])
    return network.fit_seen(train), network.seen(val)


def train_on_rows(network: HopNetwork, h: Tensor, held_out: Tensor, graph: Graph) -> Tensor:
    """Train the head on the representations of the training rows; validation chooses the epoch; its scores there."""
    head, config, rows = network.head, network.config, len(h)
    assert isinstance(head, Head)
    size = min(config.batch_size or rows, rows)
    noise = dropout_generator(network.seed, Stream.DROPOUT, h.device, 8 * head.mlp.mask_words(size))
    work = size * sum(p.numel() for p in head.parameters())  # of a step forwards, which is handed over many times
    with threads_for(work // 4):
        train_on_features(head, graph, h, held_out, network.output, network.seed, noise, size, **schedule(config))
    with torch.no_grad():
        return network.scores(held_out)
