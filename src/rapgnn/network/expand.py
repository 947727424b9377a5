"""What is made of hops before a head: random non-linear features, kernels by landmarks, counts of node colours."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from rapgnn.errors import InputError
from rapgnn.graph.graph import Graph
from rapgnn.network.encode import Standard
from rapgnn.network.heads import factored
from rapgnn.network.known_labels import GOLDEN, mixed, row_hash
from rapgnn.network.mlp import ACTIVATIONS, start_device

# Random non-linear features: σ(z W + b) with drawn W and b. A linear head on many of them can be any smooth function
# of z (Rahimi and Recht, 2008). z or z W is standardised before σ, and one generator draws for a whole network.


class RandomUnits(nn.Module):
    """Standardised inputs ``[rows, c]`` -> ``[rows, width]`` random non-linear features.

    Args:
        inputs: how many inputs each feature looks at; 0: all.
        groups: parts of equal width that the inputs come in; a feature that looks at few looks at one part.
        after: standardise the products instead of the inputs, as a layer of a deep random network does.
    """

    weight: Tensor
    bias: Tensor

    def __init__(
        self,
        in_channels: int,
        width: int,
        generator: torch.Generator,
        inputs: int = 0,
        activation: str = "relu",
        after: bool = False,
        groups: int = 1,
    ):
        super().__init__()
        self.activation, self.after = activation, after
        self.standard = Standard(width if after else in_channels)
        home, at = self.standard.shift.device, torch.device(start_device())
        drawn = torch.randn(in_channels, width, generator=generator, dtype=torch.float32, device=at)
        if 0 < inputs < in_channels:
            part = in_channels // max(1, groups)
            place = torch.rand(in_channels, width, generator=generator, device=at)
            mine = torch.arange(width, device=at) % max(1, groups)
            group = torch.arange(in_channels, device=at) // max(1, part)
            place += (group[:, None] != mine[None]).float()  # those of other parts come last
            drawn = drawn * (place.argsort(0).argsort(0) < inputs)
        drawn /= math.sqrt(max(1, min(inputs or in_channels, in_channels)))
        bias = 2 * torch.rand(width, generator=generator, dtype=torch.float32, device=at) - 1
        self.register_buffer("weight", drawn.to(home))
        self.register_buffer("bias", bias.to(home))

    @torch.no_grad()
    def fit(self, z: Tensor) -> None:
        """Learn the inputs' (or products') means and variances."""
        self.standard.fit(z @ self.weight.to(z.dtype) if self.after else z)

    def forward(self, z: Tensor) -> Tensor:
        if self.after:
            z = self.standard(z @ self.weight.to(z.dtype)) + self.bias.to(z.dtype)
            return ACTIVATIONS[self.activation](z)
        return self.units(self.standard(z), slice(None))

    def units(self, z: Tensor, which: slice) -> Tensor:
        """Some of the features, of inputs that are standardised already."""
        weight, bias = (part.to(z.dtype) for part in (self.weight[:, which], self.bias[which]))
        return ACTIVATIONS[self.activation](torch.addmm(bias, z, weight))


def signed_log(z: Tensor) -> Tensor:
    """sign(z) log(1 + |z|)."""
    return z.sign() * z.abs().log1p()


# Rows by how alike they are to other rows: a kernel, by landmarks. Ridge regression on k(z, Z) C^-T, with
# k(Z, Z) = C C^T for landmarks Z, is kernel ridge regression where Z are all the training rows, and its Nyström
# approximation (Williams and Seeger, 2001) where they are some.


KERNELS: dict[str, Callable[[Tensor], Tensor]] = {
    "gauss": lambda squared: torch.exp(-squared),
    "laplace": lambda squared: torch.exp(-squared.sqrt()),
}
"""Of squared distances: exp(-d²), and exp(-d), which is less smooth."""


class KernelMap(nn.Module):
    r"""Rows ``[r, c]`` -> ``[r, m]``, whose inner products are about :math:`m \, k(z, z')`.

    Args:
        landmarks: m, rows that are drawn from those it is fitted on.
        bandwidth: the distance at which rows are no longer alike, by the mean distance of two rows.
        trend: add the inner product of two rows: far from all landmarks what is linear goes on, where the kernel alone
            falls back to the mean. Rows have mean 0 then.
    """

    landmarks: Tensor
    turn: Tensor
    unit: Tensor

    def __init__(
        self, in_channels: int, landmarks: int, kind: str = "gauss", bandwidth: float = 1.0, trend: bool = False
    ):
        super().__init__()
        self.kind, self.bandwidth, self.trend = kind, bandwidth, trend
        # Half precision: landmarks are most of what a saved model holds. The rows' own distances count as they are.
        self.register_buffer("landmarks", torch.zeros(landmarks, in_channels, dtype=torch.float16))
        self.register_buffer("turn", torch.zeros(landmarks, landmarks, dtype=torch.float32))
        self.register_buffer("unit", torch.ones((), dtype=torch.float32))

    @torch.no_grad()
    def fit(self, z: Tensor, generator: torch.Generator) -> None:
        """Draw the landmarks among these rows, and learn how far apart rows are."""
        count = len(self.landmarks)
        if len(z) < count:
            raise InputError(f"{count} landmarks cannot be drawn from {len(z)} rows.")
        drawn = torch.randperm(len(z), generator=generator)[:count].sort().values.to(z.device)
        largest = torch.finfo(self.landmarks.dtype).max
        self.landmarks.copy_(z[drawn].clamp(-largest, largest))
        # The mean squared distance of two rows is twice the mean squared distance from the middle.
        apart = 2 * (z - z.mean(0)).square().sum(1, dtype=torch.float64).mean()
        self.unit.copy_(apart.sqrt().clamp(min=torch.finfo(torch.float32).tiny))
        factor = factored(self._alike(self.landmarks.double()), 1e-6, 1.0)  # the same row twice would leave none
        identity = torch.eye(count, dtype=torch.float64, device=z.device)
        inverse = torch.linalg.solve_triangular(factor, identity, upper=False)
        self.turn.copy_(math.sqrt(count) * inverse.T)

    def forward(self, z: Tensor, at_once: int = 8192) -> Tensor:
        turn = self.turn.to(z.dtype)
        return torch.cat([self._alike(part) @ turn for part in z.split(at_once)])

    def _alike(self, z: Tensor) -> Tensor:
        """k(z, landmarks)."""
        unit = self.unit.to(z.dtype)
        z, marks = z / unit, self.landmarks.to(z.dtype) / unit
        product = 2 * (z @ marks.T)
        squared = z.square().sum(1)[:, None] + marks.square().sum(1) - product
        alike = KERNELS[self.kind](squared.clamp(min=0) / self.bandwidth**2)
        return alike + product if self.trend else alike


# Colours of nodes by Weisfeiler and Leman: after k steps two nodes share one where their k-hop surroundings agree.


def node_colours(graph: Graph, steps: int) -> list[Tensor]:
    """The colours of all nodes at first and after every step, ``[n]`` each.

    Features that were made of the edges do not count: colours see those by themselves.
    """
    made = graph.encoding is not None and graph.encoding.kind == "structural"
    now = torch.zeros(graph.num_nodes, dtype=torch.int64, device=graph.y.device) if made else row_hash(graph.x)
    source, target = graph.edge_index.to(now.device)
    between = torch.zeros_like(source) if graph.edge_attr is None else row_hash(graph.edge_attr).to(now.device)
    colours = [now]
    for _ in range(steps):
        heard = torch.zeros_like(now).index_add_(0, target, mixed(3 * now[source] + between))
        now = mixed(GOLDEN * now + heard)
        colours.append(now)
    return colours


def colour_counts(colours: list[Tensor], ptr: Tensor, rows: Tensor, buckets: int) -> Tensor:
    """How often each colour occurs in some graphs, ``[rows, steps · buckets]``; colours share buckets by chance."""
    device = colours[0].device
    ptr, rows = ptr.to(device), rows.to(device)
    sizes = ptr.diff()[rows]
    owner = torch.repeat_interleave(torch.arange(len(rows), device=device), sizes)
    before = sizes.cumsum(0) - sizes
    nodes = torch.arange(len(owner), device=device) - before[owner] + ptr[rows][owner]
    counts = []
    for colour in colours:
        place = owner * buckets + (colour[nodes] & torch.iinfo(torch.int64).max) % buckets
        counts.append(torch.bincount(place, minlength=len(rows) * buckets).view(len(rows), buckets))
    return torch.cat(counts, dim=1).to(torch.float32)
