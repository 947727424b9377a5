"""How far node features have collapsed, for any model: rank, variance, Dirichlet energy, mean average distance."""

import numpy as np
import torch
from torch import Tensor

from rapgnn.graph.backbones import adjacency


@torch.no_grad()
def collapse_metrics(h: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> dict[str, float]:
    r"""What is left of the differences between nodes.

    * ``rank``: numerical rank of h.
    * ``effective_rank``: :math:`\exp(-\sum_i p_i \log p_i)`, p the singular values divided by their sum
      (Roy and Vetterli, 2007); 0 for h = 0.
    * ``variance``: over the nodes, averaged over the channels.
    * ``dirichlet_energy``: :math:`\frac{1}{2n} \sum_{(u,v)} a_{uv} ‖h_u / \sqrt{1+d_u} - h_v / \sqrt{1+d_v}‖²`.
    * ``mad``: mean cosine distance between all pairs of nodes whose features are not zero (Chen et al., 2020).

    Shapes:
        h ``[n, d]``, edge_index ``[2, m]``.
    """
    h = h.detach().double().flatten(1)
    n = len(h)
    singular = torch.linalg.svdvals(h) if h.numel() else h.new_zeros(1)
    share = singular / singular.sum() if float(singular.sum()) > 0 else singular
    entropy = -(share * share.clamp(min=1e-300).log()).sum()
    weight = h.new_ones(edge_index.shape[1]) if edge_weight is None else edge_weight.to(h)
    degree = np.asarray(abs(adjacency(edge_index, edge_weight, n)).sum(axis=1)).ravel()
    scaled = h / (1 + torch.from_numpy(degree).to(h)).sqrt()[:, None]
    apart = (scaled[edge_index[0]] - scaled[edge_index[1]]).square().sum(1)
    length = h.norm(dim=1)
    unit = h[length > 0] / length[length > 0, None]
    k = len(unit)
    # The sum of all cosines is the squared length of the sum of unit vectors.
    cosine = (float(unit.sum(0).square().sum()) - k) / (k * (k - 1)) if k > 1 else 1.0
    return {
        "rank": float(torch.linalg.matrix_rank(h)) if h.numel() else 0.0,
        "effective_rank": float(entropy.exp()) if float(singular.sum()) > 0 else 0.0,
        "variance": float(h.var(0, correction=0).mean()) if n else 0.0,
        "dirichlet_energy": float((weight * apart).sum() / (2 * max(1, n))),
        "mad": 1.0 - cosine,
    }
