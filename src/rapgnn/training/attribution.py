r"""What a network's score of one row is made of, where the network is linear in its inputs.

.. math:: score = bias + \sum_k \sum_j \sum_c (S^k)_{ij} z_{jc} w_{kc}

with the weights :math:`w_k` of the head for hop k: for random coefficients their expectation is part of them. So every
node, every column and every known label has a share, and the shares add up to the score.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.network.config import Config
from rapgnn.network.encode import DEGREE_COLUMNS
from rapgnn.network.hops import Hops
from rapgnn.network.network import HopNetwork, Shared
from rapgnn.network.propagation import coefficients, expected_coefficients, stored_hops
from rapgnn.network.rapgnn import RAPGNN, model_inputs
from rapgnn.sparse import Features, dense


@dataclass(frozen=True)
class Shares:
    """What the score of one row is made of.

    Args:
        base: the score, were every node the average one, and no label known.
        features: of every feature ``[c]``, over all nodes.
        others: what columns that are made of the edges, or tell nodes apart, have in sum, by their name.
        nodes: of every node's features ``[n]``.
        labels: of every node's known label ``[n]``.
    """

    base: float
    features: Tensor
    others: dict[str, float]
    nodes: Tensor
    labels: Tensor


Hop = tuple[Tensor, Tensor]  # S^k of the row [n], and the head's weights for it [channels]


def is_linear(member: Any) -> bool:
    """Whether a network's scores are linear in its inputs and in the labels that it knows."""
    config = member.config
    if not member.head.linear:
        return False
    if isinstance(member, RAPGNN):
        diagonal = member.spec.weights.structure != "full" and not member.spec.layer_dropout
        plain = config.activation == "identity" and config.embedding == "identity" and not member.spec.rule.edges
        expected = config.inference in ("auto", "expected")
        return diagonal and plain and expected and not member.embedding.varies
    return config.coefficients == "fixed" and not config.units and not config.landmarks and config.previous is None


@torch.no_grad()
def shares_of(
    member: Any, graph: Graph, row: int, outputs: Tensor, average: Tensor, shared: Shared | None = None
) -> Shares:
    """The shares in a linear network's score of one node.

    Args:
        outputs: how much each output counts in the score ``[t]``.
        average: the features ``[1, c]`` of the average node.
        shared: what other networks have walked over this graph.
    """
    weight, base = _linear_head(member, outputs.double())
    nodes, others = weight.new_zeros(graph.num_nodes), dict[str, float]()
    labels = nodes.clone()
    if isinstance(member, RAPGNN):
        seen, operator = model_inputs(graph, member.config)
        hops, x, more = _random_hops(member, operator, weight, row), seen.x, dict[str, Tensor]()
        if member.config.normalize_features:
            average = dense(replace(graph, x=average).normalized_features().x)
    else:
        walk = member.hops(graph, shared=shared)
        x, more, (hops, known) = graph.x, _more_columns(member, walk.inputs), _fixed_hops(member, walk, weight, row)
        for influence, own in known:
            labels += influence * (member.known.columns(graph, own) @ own)
        labels[row] = 0.0
    x, mean = member.scaling.scaled(x), dense(member.scaling.scaled(average)).double()
    basis = member.scaling.basis.double() if member.config.components else None
    marked = bool(member.config.coefficients == "fixed" and member.config.node_columns)
    width = 0 if marked else member.scaling.width
    real = slice(None) if graph.part is None else graph.part.nodes >= 0  # not what stands in for the rest
    features = weight.new_zeros(mean.shape[1])
    if width:  # of all hops together
        x, influences = x.to(dtype=torch.float64), torch.stack([influence for influence, _ in hops], dim=1)
        own = torch.stack([weight[:width] for _, weight in hops], dim=1)
        own = own if basis is None else basis @ own
        middle, times = mean[0] @ own, influences.sum(0)
        features += (own * (x.T @ influences - mean[0][:, None] * times)).sum(1)
        nodes += (influences * (x @ own - middle)).sum(1)
        base += float((times * middle).sum())
    for influence, weight in hops:
        start = width
        for name, columns in more.items():
            own = weight[start : start + columns.shape[1]]
            middle = torch.zeros_like(columns[0]) if marked else columns[real].mean(0)
            part = influence * ((columns - middle) @ own)
            others[name] = others.get(name, 0.0) + float(part.sum())
            nodes += part
            base += float(influence.sum() * (middle @ own))
            start += columns.shape[1]
    return Shares(base, features, others, nodes, labels)


def _linear_head(member: Any, outputs: Tensor) -> tuple[Tensor, float]:
    """Weights ``[channels]`` of the representation and bias of the outputs taken together."""
    head, output = member.head, member.output
    shift = float((output.shift.double() * outputs).sum()) if not output.plain else 0.0
    outputs = outputs if output.plain else outputs * output.scale
    weight, finish = head.first_map()
    bias = float(finish(weight.new_zeros(weight.shape[1])).double() @ outputs)
    weight = weight.double() @ outputs
    if isinstance(member, HopNetwork):
        weight = weight * member.standard.scale
        bias -= float(weight @ member.standard.shift.double())
    return weight, bias + shift


def _random_hops(member: RAPGNN, operator: GraphOperator, weight: Tensor, row: int) -> list[Hop]:
    """For random coefficients: every stored hop with its expected coefficients in all outputs."""
    spec, channels = member.spec, member.embedding.out_channels
    mean = expected_coefficients(spec)[..., None]  # [J, K, 1]
    if spec.weights.schedule == "fixed" or spec.weights.structure == "identity":
        mean = coefficients(spec, [0], channels)[0].double()
    by_hop = (mean * weight.view(len(spec.outputs), 1, channels)).sum(0)  # [K, d]
    influence = influence_of(operator, row, spec.num_layers)
    return [(influence[k] / spec.operator_scale**k, w) for k, w in zip(stored_hops(spec), by_hop, strict=True)]


def _fixed_hops(member: HopNetwork, walk: Hops, weight: Tensor, row: int) -> tuple[list[Hop], list[Hop]]:
    """For fixed hops: every hop with its part of the weights; likewise the hops of known labels."""
    config = member.config
    depth, label_hops = config.num_layers, config.known_labels
    influence = [influence_of(way, row, max(depth, label_hops)) for way in walk.ways]
    count = label_hops * len(influence)
    width = count * len(member.output.shift)
    own, rest = weight.split([len(weight) - width, width])
    seen = seen_hops(config, influence)
    hops = [(seen[0], own)] if config.jumping != "cat" else list(zip(seen, own.chunk(len(seen)), strict=True))
    far = [r for way in influence for r in way[1 : label_hops + 1]]
    return hops, list(zip(far, rest.chunk(max(1, count))[:count], strict=True))


def seen_hops(config: Config, influence: list[list[Tensor]]) -> list[Tensor]:
    """What a row sees side by side: sums over all nodes with these weights ``[n]``; of every way S^k of the row."""
    depth, first = config.num_layers, influence[0]
    if config.jumping == "cat":
        return [*first[: depth + 1], *(r for back in influence[1:] for r in back[1 : depth + 1])]
    if config.jumping == "last":
        return [first[depth]]
    alpha = config.teleport
    return [torch.stack([alpha * (1 - alpha) ** k * first[k] for k in range(depth + 1)]).sum(0)]


def influence_of(operator: GraphOperator, row: int, depth: int) -> list[Tensor]:
    """S^k of one row ``[n]``, for k = 0 to ``depth``."""
    backwards = operator.matrix.to(dtype=torch.float64).T
    influence = [torch.zeros(backwards.shape[0], dtype=torch.float64)]
    influence[0][row] = 1.0
    for _ in range(depth):
        influence.append((backwards @ influence[-1][:, None])[:, 0])
    return influence


def _more_columns(member: HopNetwork, inputs: Features) -> dict[str, Tensor]:
    """The columns beside the scaled features: those that tell nodes apart instead, sums of edge features, degrees."""
    if member.config.node_columns:
        return {"which node it is": dense(inputs).double()}
    if inputs.shape[1] == member.scaling.width:
        return {}
    rest = dense(inputs)[:, member.scaling.width :].double()
    edges = rest.shape[1] - (DEGREE_COLUMNS if member.config.degree_columns else 0)
    parts = {"edge features": rest[:, :edges], "degrees": rest[:, edges:]}
    return {name: part for name, part in parts.items() if part.shape[1]}
