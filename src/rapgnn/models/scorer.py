"""Stored hops in, scores out: the part of a network that runs anywhere, as plain tensor operations."""

import torch
from torch import Tensor, nn

from rapgnn.layers.heads import Head
from rapgnn.layers.ridge import RidgeHead
from rapgnn.layers.targets import TargetScale
from rapgnn.propagation.moments import expected_coefficients
from rapgnn.propagation.spec import Propagation


class HopScorer(nn.Module):
    r"""The exact expectation's scores, :math:`c_θ(\sum_k E[c_k] S^k h^0)`, as ``torch.export`` and others take them.

    Args:
        spec, head, output: of a trained network; they are copied.

    Shapes:
        hops ``[rows, K, d]`` -> ``[rows, out_channels]``.
    """

    coefficients: Tensor

    def __init__(self, spec: Propagation, head: Head | RidgeHead, output: TargetScale):
        super().__init__()
        self.register_buffer("coefficients", expected_coefficients(spec).float())
        self.head = _plain(head)
        self.output = None if bool(output.plain) else _affine(output.scale, output.shift)
        self.requires_grad_(False)
        self.eval()

    def forward(self, hops: Tensor) -> Tensor:
        scores = self.head(torch.einsum("jk,rkd->rjd", self.coefficients, hops.to(self.coefficients.dtype)).flatten(1))
        return scores if self.output is None else self.output(scores)


class _Affine(nn.Module):
    scale: Tensor
    shift: Tensor

    def __init__(self, scale: Tensor, shift: Tensor):
        super().__init__()
        self.register_buffer("scale", scale)
        self.register_buffer("shift", shift)

    def forward(self, x: Tensor) -> Tensor:
        return torch.addcmul(self.shift, x, self.scale)


def _affine(scale: Tensor, shift: Tensor) -> _Affine:
    return _Affine(scale.detach().clone(), shift.detach().clone())


def _linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], device="meta").to_empty(device=weight.device)
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)
    return layer


def _plain(head: Head | RidgeHead) -> nn.Sequential:
    """The head as a chain of torch's own modules, at inference."""
    if isinstance(head, RidgeHead):
        return nn.Sequential(_linear((head.weight * head.sharpness).T, head.bias * head.sharpness))
    chain: list[nn.Module] = [_affine(head.input_scale, head.input_offset)]
    linears = head.mlp.linears()
    for i, layer in enumerate(linears):
        chain.append(_linear(layer.weight, layer.bias))
        if i + 1 == len(linears):
            break
        if head.mlp.norms is not None:
            norm = head.mlp.norms[i]
            scale = norm.weight / (norm.running_var + norm.eps).sqrt()  # type: ignore[operator]
            chain.append(_affine(scale, norm.bias - norm.running_mean * scale))  # type: ignore[operator]
        chain.append(nn.ReLU())
    return nn.Sequential(*chain)
