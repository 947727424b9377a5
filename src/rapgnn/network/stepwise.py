r"""Layer by layer: the reference engine. Any structure, activation and dropout; gradients flow where asked for.

.. math:: h ← s·h + σ(a ⊙ h + b ⊙ (S h))
"""

import torch
from torch import Tensor

from rapgnn.fused import ACTIVATIONS as FUSED_ACTIVATIONS
from rapgnn.graph.operator import GraphOperator
from rapgnn.network.mlp import ACTIVATIONS, dropout_dense
from rapgnn.network.propagation import Propagation
from rapgnn.sparse import LARGE_PRODUCT, Features, dense

Layers = dict[str, Tensor]  # the weights of one draw by name, each [L, d] or [L, d, d], as ``Propagation.draw_all``


def propagate(
    spec: Propagation,
    operator: GraphOperator,
    h: Features,
    counter: int | Layers,
    generator: torch.Generator | None = None,
    *,
    e: Tensor | None = None,
    every_layer: bool = False,
) -> Tensor:
    """One forward pass through all layers with the weights of draw ``counter``.

    Args:
        generator: where dropout between layers takes its randomness; None is inference, without dropout.
        e: the embedded edge types ``[t, d]``, for a backbone whose messages have edge features.
        every_layer: return h⁰ … h^L stacked instead of h^L.

    Shapes:
        h ``[n, d]`` -> ``[n, d]``, or ``[L + 1, n, d]`` with ``every_layer``.
    """
    h = dense(h)
    channels, to = h.shape[1], {"device": h.device, "dtype": h.dtype}
    shrink = 1.0 / spec.growth(channels)
    # Positively homogeneous σ: the growth constant goes into the weights instead of one more pass over h.
    if isinstance(counter, int):
        counter = {name: w[0] for name, w in spec.draw_all(counter, channels, **to).items()}
    drawn = {term: counter[term] * shrink for term in spec.rule.terms}
    a, b, s = drawn.get("root"), drawn["neighbour"], spec.skip * shrink
    further = [w for name, w in counter.items() if name not in drawn]
    # Without gradients a layer works in the buffer its product made: fewer passes over memory, the same numbers.
    reuse = not (torch.is_grad_enabled() and (h.requires_grad or (e is not None and e.requires_grad)))
    activation = ACTIVATIONS[spec.activation]
    sigma = torch.relu_ if reuse and spec.activation == "relu" else activation
    every = [h]
    # Without gradients a GPU runs a whole layer in one kernel; a matrix of one small batch is not worth preparing.
    fused, small = None, operator.ptr is not None and operator.matrix.nnz * channels * spec.num_layers < LARGE_PRODUCT
    plain = reuse and b.dim() == 2 and not further and not spec.rule.edges and spec.activation in FUSED_ACTIVATIONS
    if plain and not small:
        fused = operator.matrix.fused(h)
    assert e is not None or not spec.rule.edges, "this backbone's messages need embedded edge features"
    for layer in range(spec.num_layers):
        if fused is not None:
            z = fused.layer(h, b[layer], None if a is None else a[layer], s, spec.activation)
        else:
            Sh = operator.matrix @ h if e is None else gather(operator, h, e * shrink**layer)
            z = _weigh(Sh, b[layer], Sh if reuse else None)
            if a is not None:
                z = torch.add(z, _weigh(h, a[layer]), out=z if reuse else None)
            z = sigma(z)
            for weights in further:
                z = activation(_weigh(z, weights[layer]))
            if s:
                z = torch.add(z, h, alpha=s, out=z if reuse else None)
        h = dropout_dense(z, spec.layer_dropout, generator)
        if every_layer:
            every.append(h)
    return torch.stack(every) if every_layer else h


def _weigh(h: Tensor, weight: Tensor, out: Tensor | None = None) -> Tensor:
    """h ⊙ w for a diagonal ``[d]``, h w for a full matrix; a product with a diagonal may go into ``out``."""
    return h @ weight if weight.dim() == 2 else torch.mul(h, weight, out=out)


def gather(operator: GraphOperator, h: Tensor, e: Tensor) -> Tensor:
    """(1 + ε) h_v + Σ_u ReLU(h_u + e_uv): what a GINE layer puts through its weights."""
    edges = operator.edges
    assert edges is not None
    messages = torch.relu(edges.sender @ h + e.index_select(0, edges.kind))
    return torch.add(edges.receiver @ messages, h, alpha=1.0 + operator.eps)


def pooled(
    spec: Propagation,
    operator: GraphOperator,
    h: Features,
    counter: int | Layers,
    generator: torch.Generator | None = None,
    e: Tensor | None = None,
) -> Tensor:
    """The representation of one forward pass: layers joined as the spec says, one row per node or per graph."""
    if spec.jumping == "last":
        return operator.pool(propagate(spec, operator, h, counter, generator, e=e), spec.pooling)
    layers = propagate(spec, operator, h, counter, generator, e=e, every_layer=True)
    return torch.cat([operator.pool(layer, spec.pooling) for layer in layers], dim=1)
