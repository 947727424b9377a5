"""Layer by layer: the reference engine. Any structure, activation and dropout; gradients flow where asked for."""

import torch
from torch import Tensor

from rapgnn.dropout import dropout_dense
from rapgnn.propagation import ACTIVATIONS, Propagation
from rapgnn.spmm import SparseMatrix


def propagate(
    spec: Propagation,
    operator: SparseMatrix,
    h: Tensor | SparseMatrix,
    counter: int,
    generator: torch.Generator | None = None,
    *,
    every_layer: bool = False,
) -> Tensor:
    """One forward pass through all layers with the weights of draw ``counter``.

    Args:
        spec: the layers.
        operator: S.
        h: h⁰.
        counter: which draw.
        generator: where dropout between layers takes its randomness; None is inference, without dropout.
        every_layer: return h⁰ … h^L stacked instead of h^L.

    Shapes:
        h ``[n, d]`` -> ``[n, d]``, or ``[L + 1, n, d]`` with ``every_layer``.
    """
    h = h.columns(0, h.shape[1]) if isinstance(h, SparseMatrix) else h
    channels, shrink, activation = h.shape[1], 1.0 / spec.growth(h.shape[1]), ACTIVATIONS[spec.activation]
    # Without gradients a layer works in the buffer its product made: fewer passes over memory, the same numbers.
    in_place = not (torch.is_grad_enabled() and h.requires_grad)
    # Positively homogeneous σ: the growth constant goes into the weights instead of one more pass over h.
    drawn = {t: w[0] * shrink for t, w in spec.draw(counter, channels, device=h.device, dtype=h.dtype).items()}
    layers = [h]
    for layer in range(spec.num_layers):
        pre = None
        for term, weights in drawn.items():
            weight = weights[layer]
            signal = operator @ h if term == "neighbour" else h
            if weight.dim() == 2:
                part = signal @ weight
            elif in_place and term == "neighbour":
                part = signal.mul_(weight)
            else:
                part = signal * weight
            pre = part if pre is None else (pre.add_(part) if in_place else pre + part)
        assert pre is not None
        out = torch.relu_(pre) if in_place and spec.activation == "relu" else activation(pre)
        if spec.skip:
            keep = spec.skip * shrink
            out = out.add_(h, alpha=keep) if in_place else torch.add(out, h, alpha=keep)
        h = dropout_dense(out, spec.dropout, generator)
        if every_layer:
            layers.append(h)
    return torch.stack(layers) if every_layer else h
