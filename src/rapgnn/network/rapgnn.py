"""RAPGNN: the network with random layers, as a ``torch.nn.Module``."""

import copy
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from rapgnn.device import full_precision
from rapgnn.errors import InputError
from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator, build_operator
from rapgnn.network.config import Config
from rapgnn.network.encode import Embedding
from rapgnn.network.heads import Head, RidgeHead, TargetScale, make_head
from rapgnn.network.hops import NEAR, Hops
from rapgnn.network.network import Network, Shared, inputs_of, once
from rapgnn.network.propagation import Propagation, expected_coefficients
from rapgnn.network.representation import EmbeddedGraph, PolynomialRepresentation
from rapgnn.prng import Stream, seeded
from rapgnn.sparse import Features

# A graph that a network has embedded once, so that every later forward pass costs what the shortcut costs.


class PreparedGraph:
    """What ``RAPGNN.prepare`` gives: the embedded graph, and of the rows asked for the stored hops.

    The embedding is taken as it was at that moment, without gradients; prepare again when it has changed.
    """

    def __init__(self, embedded: EmbeddedGraph, rows: Tensor):
        self.embedded, self.index = embedded, rows
        self._ahead: tuple[int, list[Tensor]] = (0, [])  # draws made together: the first one's number, and all

    @cached_property
    def _representation(self):
        return self.embedded.rows(self.index)

    def rows(self, rows: Tensor) -> "PreparedGraph":
        """The same embedded graph for other rows, by their numbers in the whole graph."""
        return PreparedGraph(self.embedded, rows.to(self.index.device))

    def __len__(self) -> int:
        return len(self.index)

    @property
    def engine(self) -> str:
        """``"polynomial"`` or ``"stepwise"``."""
        return self.embedded.engine

    @property
    def reason(self) -> str:
        """Why that engine."""
        return self.embedded.reason

    @property
    def hops(self) -> Tensor:
        """``[rows, K, d]``: the stored hops, which ``RAPGNN.scorer`` takes."""
        if not isinstance(self._representation, PolynomialRepresentation):
            raise InputError(f"there are no hops, because the layers run one by one: {self.reason}.")
        return self._representation.filter.hops.permute(2, 1, 0)

    @torch.no_grad()
    def draw(self, step: int, generator: torch.Generator | None = None) -> Tensor:
        """The representation ``[rows, J·d]`` of forward pass number ``step``.

        Args:
            generator: switches dropout between the layers on.
        """
        with full_precision(self.index.device):
            if generator is not None or not isinstance(self._representation, PolynomialRepresentation):
                return next(self._representation.draws([self._counter(step)], generator, [step]))
            first, drawn = self._ahead
            if not first <= step < first + len(drawn):
                steps = range(step, step + self._representation.draws_together)
                drawn = list(self._representation.draws([self._counter(s) for s in steps], None, steps))
                first, self._ahead = step, (step, drawn)
            return drawn[step - first]

    @cached_property
    def expectation(self) -> Tensor:
        """The exact expectation ``[rows, J·d]``, where there is one."""
        with torch.no_grad(), full_precision(self.index.device):
            return self.embedded.expectation(self.index)

    def _counter(self, step: int) -> int:
        return self.embedded.spec.weights.counter(step, step)

    def __repr__(self) -> str:
        return f"PreparedGraph({len(self)} rows, {self.engine} engine, because {self.reason})"


# Stored hops in, scores out: the part of a network that runs anywhere, as plain tensor operations.


class HopScorer(nn.Module):
    r"""The exact expectation's scores, :math:`c_θ(\sum_k E[c_k] S^k h^0)`, as ``torch.export`` and others take them.

    Args:
        spec, head, output: of a trained network; they are copied.

    Shapes:
        hops ``[rows, K, d]`` -> ``[rows, out_channels]``.
    """

    coefficients: Tensor
    shift: Tensor | None
    scale: Tensor | None

    def __init__(self, spec: Propagation, head: Head | RidgeHead, output: TargetScale):
        super().__init__()
        self.register_buffer("coefficients", expected_coefficients(spec).float())
        plain = bool(output.plain)
        self.register_buffer("shift", None if plain else output.shift.clone())
        self.register_buffer("scale", None if plain else output.scale.clone())
        self.head = copy.deepcopy(head)
        self.requires_grad_(False)
        self.eval()

    def forward(self, hops: Tensor) -> Tensor:
        scores = self.head(torch.einsum("jk,rkd->rjd", self.coefficients, hops.to(self.coefficients.dtype)).flatten(1))
        return scores if self.shift is None or self.scale is None else torch.addcmul(self.shift, scores, self.scale)


class RAPGNN(Network):
    r"""Embedding, L random layers, head: :math:`ŷ = c_θ(g_{w^{(L)}} ∘ … ∘ g_{w^{(1)}} ∘ f_φ(x))`.

    Only the head (and, in phase 1, the embedding) has parameters to train. Every call draws the next weights:
    ``draw_counter`` says which, is saved with the module, and can be set to replay a draw. For a loop of your own,
    ``prepare`` the graph once: ``model(prepared)`` draws after ``train()`` and gives the expectation after ``eval()``.

    Args:
        in_channels: width of the features.
        hidden_channels: d, width of the layers.
        num_layers: L.
        out_channels: number of classes, labels or targets.
        edge_channels: width of the edge features, where the backbone uses them.
        seed: of everything random in here.
        config: all settings at once, ``hidden_channels`` and ``num_layers`` included, instead of one by one.
        settings: any other field of ``Config`` (``backbone``, ``embedding``, ``head``, ``schedule``, ``engine``, ...).

    Shapes:
        x ``[n, c]``, edge_index ``[2, m]`` -> ``[n, out_channels]`` or ``[rows, out_channels]``; with ``batch`` ``[n]``
        (every node's graph) -> ``[graphs, out_channels]``.
    """

    draw_counter: Tensor
    draw_seed: Tensor
    operator_scale: Tensor

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int = 256,
        num_layers: int = 8,
        out_channels: int = 2,
        *,
        edge_channels: int = 0,
        seed: int = 0,
        config: Config | None = None,
        **settings: Any,
    ):
        if config is None:
            config = Config(hidden_channels=hidden_channels, num_layers=num_layers, **settings)
        elif settings:
            raise InputError(f"give config or single settings, not both: {', '.join(settings)}.")
        super().__init__(in_channels, out_channels, seed, config)
        self._layers = Propagation.of(config, seed)
        generator = seeded(seed, Stream.START_VALUES)
        self.embedding = Embedding(
            config.embedding,
            self.scaling.width,
            config.hidden_channels,
            config.embedding_layers,
            edge_channels=edge_channels,
            backbone=config.backbone,
            output=config.embedding_output,
            dropout=config.pretrain_dropout,
            random_features=config.random_features,
            generator=generator,
            seed=seed,
        )
        if self.embedding.kind.trained == "never":
            self.embedding.requires_grad_(False)
        width = self.embedding.out_channels * len(self._layers.outputs)
        self.head = make_head(config, width, out_channels, generator)
        self.register_buffer("draw_seed", torch.tensor(_signed(seed), dtype=torch.int64))
        self.register_load_state_dict_pre_hook(_keep_seed)
        self.register_load_state_dict_post_hook(_reseed)
        self.register_buffer("draw_counter", torch.zeros((), dtype=torch.int64))
        self.register_buffer("operator_scale", torch.ones((), dtype=torch.float64))

    @property
    def spec(self) -> Propagation:
        """The random layers."""
        return replace(self._layers, operator_scale=float(self.operator_scale))

    def fit_operator_scale(self, operator: GraphOperator) -> None:
        """Take from the training graphs how much their operator enlarges, where that is not normalised."""
        if self._layers.rule.includes_self:
            self.operator_scale.fill_(operator.growth_rate)

    @torch.no_grad()
    def embed(
        self,
        x: Features,
        operator: GraphOperator,
        trainable: bool = False,
        engine: str | None = None,
        cache: Hops | None = None,
    ) -> EmbeddedGraph:
        """Embed the graph and choose the engine, the shortcut where it is exact: to keep where a graph is used often.

        Args:
            trainable: whether gradients must reach the embedding, so that h⁰ changes between forward passes.
            engine: as in ``Config``; None takes the model's own.
            cache: hops that other networks have computed; used where they are this one's too.
        """
        spec, embedding, engine = self.spec, self.embedding, engine or self.config.engine
        h: Features | None = None
        e: Tensor | None = None
        obstacle: str | None
        if trainable:
            obstacle = "the embedding is trained through the layers"
        elif embedding.varies:
            obstacle = "the embedding changes in every forward pass"
        else:
            h, e = embedding.embed(embedding.inputs(x, operator)), embedding.edges(operator)
            obstacle = spec.obstacle(operator, h, e)
        if engine == "polynomial" and obstacle:
            raise InputError(f"the polynomial engine would not be exact: {obstacle}; use engine auto or stepwise.")
        if engine == "stepwise" or obstacle:
            reason = obstacle or "the layer-by-layer engine was asked for"
            return EmbeddedGraph(spec, operator, x, embedding, "stepwise", reason, h, e)
        linear = spec.activation == "identity" and not spec.rule.edges
        reason = "the layers are linear" if linear else "weights, graph and embedded features are non-negative"
        return EmbeddedGraph(spec, operator, x, embedding, "polynomial", reason, h, e, cache)

    def hops(self, graph: Graph, rows: Tensor | None = None, shared: Shared | None = None) -> Hops:
        """Hops of the scaled features of a single graph's nodes, to be shared; of components others ask for whole ones.

        Args:
            rows, shared: as in ``HopNetwork.hops``.
        """
        config = self.config
        operator = graph.operator(config.backbone, config.self_loops, config.eps)
        inputs = once({} if shared is None else shared, inputs_of(config), lambda: self.scaling(graph.x))
        return Hops(operator, inputs, rows=rows, near=NEAR if config.components else 0)

    def inputs(self, graph: Graph, learn: bool = False, hops: Hops | None = None) -> tuple[Graph, GraphOperator]:
        """The graph with its features scaled as the settings want them, and its operator for the backbone.

        Args:
            learn: learn the scaling, and the sizes of the operator and of the targets, of this graph first.
            hops: of the graph with its features scaled, where other networks have walked them: the scaling is learned.
        """
        if hops is None:
            graph, operator = model_inputs(graph, self.config)
            if learn:
                self.scaling.fit(graph.x)
            graph = replace(graph, x=self.scaling(graph.x))
        else:
            graph, operator = replace(graph, x=hops.inputs), hops.operator
        if learn:
            self.fit_operator_scale(operator if operator.ptr is None else operator.select(graph.train)[0])
            self.learn_targets(graph)
        return graph, operator

    def prepare(
        self,
        data: Any,
        edge_index: Tensor | None = None,
        edge_weight: Tensor | None = None,
        *,
        edge_attr: Features | None = None,
        batch: Tensor | None = None,
        rows: Tensor | None = None,
    ) -> PreparedGraph:
        """Embed a graph once; ``model(prepared)`` is then as cheap as a step of this library's own training.

        The embedding is taken as it is now and gets no gradient.

        Args:
            data: node features with ``edge_index`` beside them, as in ``forward``, or a PyG ``Data`` that has both.
            rows: nodes (or graphs) whose scores are wanted; None: all. ``prepared.rows(...)`` gives others later.
        """
        fields: tuple[Any, ...] = (data, edge_index, edge_weight, edge_attr, batch)
        if edge_index is None:
            fields = _fields(data, edge_weight=edge_weight, edge_attr=edge_attr, batch=batch)
        return self._prepared(fields[0], self._operator(*fields), rows)

    def _prepared(
        self, x: Features, operator: GraphOperator, rows: Tensor | None, engine: str | None = None
    ) -> PreparedGraph:
        rows = torch.arange(operator.num_rows, device=x.device) if rows is None else rows.to(x.device)
        with full_precision(x.device):
            return PreparedGraph(self.embed(self.scaling(x), operator, engine=engine), rows)

    def _operator(
        self,
        x: Features,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        edge_attr: Features | None,
        batch: Tensor | None,
    ) -> GraphOperator:
        ptr = None
        if batch is not None:
            if bool((batch.diff() < 0).any()) or bool((batch[edge_index[0]] != batch[edge_index[1]]).any()):
                raise InputError("batch must list the nodes graph by graph, and no edge may join two graphs.")
            sizes = torch.bincount(batch)
            ptr = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
        config = self.config
        operator = build_operator(
            x, edge_index, config.backbone, edge_weight, edge_attr, ptr, config.self_loops, config.eps
        )
        if float(self.operator_scale) == 1.0:  # the first graph decides, so that depth overflows nowhere
            self.fit_operator_scale(operator)
        return operator

    def forward(
        self,
        x: "Features | PreparedGraph",
        edge_index: Tensor | None = None,
        edge_weight: Tensor | None = None,
        *,
        edge_attr: Features | None = None,
        batch: Tensor | None = None,
        rows: Tensor | None = None,
    ) -> Tensor:
        """Scores with the next draw of the weights.

        Args:
            x: features, with the graph in the other arguments; or a graph from ``prepare`` alone, which in evaluation
                mode is scored as ``config.inference`` says: by the exact expectation, where there is one.
        """
        if isinstance(x, PreparedGraph):
            return self._score(x, draw=self.training)
        if edge_index is None:
            raise InputError("give edge_index beside the features, or a graph from model.prepare(...).")
        operator = self._operator(x, edge_index, edge_weight, edge_attr, batch)
        # For a single draw the layers one by one are cheaper than all hops.
        once = "stepwise" if self.config.engine == "auto" else None
        if torch.is_grad_enabled() and any(p.requires_grad for p in self.embedding.parameters()):
            rows = torch.arange(operator.num_rows, device=x.device) if rows is None else rows.to(x.device)
            step, generator = self._next_step(x.device)
            counter = self.spec.weights.counter(step, step)
            with full_precision(x.device):
                embedded = self.embed(self.scaling(x), operator, trainable=True, engine=once)
                h = next(embedded.rows(rows).draws([counter], generator, [step]))
            return self.output(self.head(h, generator))
        return self._score(self._prepared(x, operator, rows, once), draw=True)

    def _score(self, prepared: PreparedGraph, draw: bool) -> Tensor:
        if not draw:
            inference = prepared.embedded.choose_inference(self.config.inference)
            if inference == "expected":
                return self.output(self.head(prepared.expectation))
            count = self.config.num_samples if inference == "mean" and not prepared.embedded.constant else 1
            drawn = [self.head(prepared.draw(self._next_step(None)[0])) for _ in range(count)]
            return self.output(torch.stack(drawn).mean(0))
        step, generator = self._next_step(prepared.index.device)
        h = prepared.draw(step, generator if self.spec.layer_dropout else None)
        return self.output(self.head(h, generator))

    def _next_step(self, device: torch.device | None) -> tuple[int, torch.Generator | None]:
        """The number of this forward pass, and in training mode the generator of its dropout, which it can replay."""
        step = int(self.draw_counter)
        self.draw_counter += 1
        if not self.training or device is None:
            return step, None
        return step, seeded(self.seed, Stream.FORWARD + step, device)

    def scorer(self) -> HopScorer:
        """The exact expectation's scores as a module of plain tensor operations: ``scorer(prepared.hops)``.

        ``torch.compile``, ``torch.export`` and ONNX take it.
        """
        return HopScorer(self.spec, self.head, self.output)

    @property
    def seed(self) -> int:  # type: ignore[reportIncompatibleVariableOverride]
        """Of everything random in here; part of the ``state_dict``."""
        return int(self.draw_seed)

    def __repr__(self) -> str:
        c = self.config
        return f"RAPGNN({c.backbone}, {c.num_layers} layers, {c.hidden_channels} channels, {c.embedding} embedding)"


def _signed(seed: int) -> int:
    """Any whole number as one of 64 bits with a sign; the draws of both are the same."""
    return (int(seed) + (1 << 63)) % (1 << 64) - (1 << 63)


def _keep_seed(model: RAPGNN, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """States that were saved without a seed leave the model's own."""
    state.setdefault(f"{prefix}draw_seed", model.draw_seed)


def _reseed(model: RAPGNN, _: Any) -> None:
    model._layers = Propagation.of(model.config, model.seed)
    model.embedding.seed = model.seed


def _fields(data: Any, **given: Any) -> tuple[Any, ...]:
    """Features, edges and the rest of a PyG ``Data``; what is given beside it wins."""
    if getattr(data, "edge_index", None) is None or getattr(data, "x", None) is None:
        raise InputError("give node features and edge_index, or a PyG Data that has both.")
    rest = (getattr(data, name, None) if value is None else value for name, value in given.items())
    return data.x, data.edge_index, *rest


# A graph as a model's settings want it.


def model_inputs(graph: Graph, config: Config) -> tuple[Graph, GraphOperator]:
    """The graph with its features as the settings want them, and its operator for the backbone."""
    graph = graph.normalized_features() if config.normalize_features else graph
    return graph, graph.operator(config.backbone, config.self_loops, config.eps)
