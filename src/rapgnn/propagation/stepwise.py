"""Layer by layer: the reference engine. Any structure, activation and dropout; gradients flow where asked for."""

import torch
from torch import Tensor

from rapgnn.graph.operator import Structure
from rapgnn.layers.dropout import dropout_dense
from rapgnn.propagation.spec import ACTIVATIONS, Propagation
from rapgnn.sparse import Features, dense


def propagate(
    spec: Propagation,
    structure: Structure,
    h: Features,
    counter: int,
    generator: torch.Generator | None = None,
    *,
    e: Tensor | None = None,
    every_layer: bool = False,
) -> Tensor:
    """One forward pass through all layers with the weights of draw ``counter``.

    Args:
        spec: the layers.
        structure: the graph.
        h: h⁰.
        counter: which draw.
        generator: where dropout between layers takes its randomness; None is inference, without dropout.
        e: the embedded edge types ``[t, d]``, for a backbone whose messages have edge features.
        every_layer: return h⁰ … h^L stacked instead of h^L.

    Shapes:
        h ``[n, d]`` -> ``[n, d]``, or ``[L + 1, n, d]`` with ``every_layer``.
    """
    h = dense(h)
    channels, shrink, activation = h.shape[1], 1.0 / spec.growth(h.shape[1]), ACTIVATIONS[spec.activation]
    # Without gradients a layer works in the buffer its product made: fewer passes over memory, the same numbers.
    in_place = not (torch.is_grad_enabled() and (h.requires_grad or (e is not None and e.requires_grad)))
    to = {"device": h.device, "dtype": h.dtype}
    # Positively homogeneous σ: the growth constant goes into the weights instead of one more pass over h.
    drawn = {t: w[0] * shrink for t, w in spec.draw(counter, channels, **to).items()}
    further = [w[0] for w in spec.further_factors(counter, channels, **to)]
    layers = [h]
    for layer in range(spec.num_layers):
        pre = None
        for term, weights in drawn.items():
            weight = weights[layer]
            if term != "neighbour":
                signal = h
            elif spec.rule.edges:
                assert e is not None
                signal = gather(structure, h, e * shrink**layer)
            else:
                signal = structure.operator @ h
            if weight.dim() == 2:
                part = signal @ weight
            elif in_place and term == "neighbour":
                part = signal.mul_(weight)
            else:
                part = signal * weight
            pre = part if pre is None else (pre.add_(part) if in_place else pre + part)
        assert pre is not None
        out = torch.relu_(pre) if in_place and spec.activation == "relu" else activation(pre)
        for weights in further:
            out = activation(out @ weights[layer] if weights[layer].dim() == 2 else out * weights[layer])
        if spec.skip:
            keep = spec.skip * shrink
            out = out.add_(h, alpha=keep) if in_place else torch.add(out, h, alpha=keep)
        h = dropout_dense(out, spec.dropout, generator)
        if every_layer:
            layers.append(h)
    return torch.stack(layers) if every_layer else h


def gather(structure: Structure, h: Tensor, e: Tensor) -> Tensor:
    """(1 + ε) h_v + Σ_u ReLU(h_u + e_uv): what a GINE layer puts through its weights."""
    edges = structure.edges
    assert edges is not None
    messages = torch.relu(edges.sender @ h + e.index_select(0, edges.kind))
    return torch.add(edges.receiver @ messages, h, alpha=1.0 + structure.eps)


def pooled(
    spec: Propagation,
    structure: Structure,
    h: Features,
    counter: int,
    generator: torch.Generator | None = None,
    e: Tensor | None = None,
) -> Tensor:
    """The representation of one forward pass: layers joined as the spec says, one row per node or per graph."""
    if spec.jumping == "last":
        return structure.pool(propagate(spec, structure, h, counter, generator, e=e), spec.pooling)
    layers = propagate(spec, structure, h, counter, generator, e=e, every_layer=True)
    return torch.cat([structure.pool(layer, spec.pooling) for layer in layers], dim=1)
