"""How good scores of pairs, and recommendations, are."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from rapgnn.pairs.links import Links
from rapgnn.pairs.splits import negatives

HITS = (20, 50, 100)
MOST_RANKED = 2000  # nodes whose recommendations are measured
K = 20  # recommendations that are shown
TITLES = {
    "rocauc": "ROC-AUC, random pairs",
    "average_precision": "average precision, random pairs",
    "hits@100": "Hits@100, random pairs",
    "hard_rocauc": "ROC-AUC, near pairs",
    "mrr": "MRR",
    f"ndcg@{K}": f"NDCG@{K}",
    f"recall@{K}": f"Recall@{K}",
}
"""The measures that people are shown."""


def hits(links: np.ndarray, others: np.ndarray, k: int) -> float:
    """Hits@k: the share of links whose score is above the k-th best of the other pairs (Hu et al., 2020)."""
    return float((links > np.sort(others)[-k]).mean()) if len(others) >= k else 1.0


def binary_measures(scores: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """ROC-AUC, average precision and Hits@k of scores with labels 1 and 0; NaN where only one of them is there."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    if len(np.unique(y)) < 2:
        return dict.fromkeys(["rocauc", "average_precision", *(f"hits@{k}" for k in HITS)], float("nan"))
    curves = {"rocauc": roc_auc_score(y, scores), "average_precision": average_precision_score(y, scores)}
    shares = {f"hits@{k}": hits(scores[y == 1], scores[y == 0], k) for k in HITS}
    return {name: float(value) for name, value in (curves | shares).items()}


Scores = Callable[[Tensor], Tensor]
Ranked = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Nodes, their neighbours and scores, the best first, one node after another."""


def against_others(scores: Scores, known: Links, links: Tensor, seed: int) -> dict[str, float]:
    """How links that are hidden from a graph compare with random pairs, and (``hard_``) with near ones.

    Args:
        known: the links of the graph, none of those that are hidden.
    """
    everything = Links.of(known.n, torch.cat([known.ends, links]), None, known.directed)
    of_links, measures = scores(links).numpy(), dict[str, float]()
    for kind, prefix in (("random", ""), ("hard", "hard_")):
        others = scores(negatives(everything, len(links), kind, seed + 1)).numpy()
        truth = np.repeat([1, 0], [len(links), len(others)])
        of_kind = binary_measures(np.concatenate([of_links, others]), truth)
        measures |= {prefix + name: value for name, value in of_kind.items()}
    return measures


def held_out_measures(
    scores: Scores, best: Callable[[Tensor, int], Ranked], known: Links, links: Tensor, k: int, seed: int
) -> dict[str, float]:
    """The same, and how hidden links rank in the recommendations.

    Args:
        best: of some nodes the best k.
    """
    both = known.ordered(links)
    if not (known.directed or known.bipartite):
        both = torch.cat([both, both.flip(1)])
    nodes = torch.unique(both[:, 0])
    if len(nodes) > MOST_RANKED:
        nodes = nodes[torch.from_numpy(np.sort(np.random.default_rng(seed).permutation(len(nodes))[:MOST_RANKED]))]
    node, neighbour, _ = best(nodes, k)
    return against_others(scores, known, links, seed) | measured(nodes, both, node, neighbour, k)


def measured(nodes: Tensor, links: Tensor, node: np.ndarray, neighbour: np.ndarray, k: int) -> dict[str, float]:
    """The measures of a ranking: the best k ``neighbour`` of each ``node`` one after another."""
    from torch_geometric.metrics import LinkPredMRR, LinkPredNDCG, LinkPredRecall

    best = torch.full((len(nodes), k), -1)
    row = torch.searchsorted(nodes, torch.from_numpy(node))
    rank = torch.arange(len(row)) - torch.searchsorted(row, row)  # rows come one after another
    best[row, rank] = torch.from_numpy(neighbour)
    place = torch.searchsorted(nodes, links[:, 0].contiguous()).clamp(max=len(nodes) - 1)
    asked = nodes[place] == links[:, 0]
    truth = torch.stack([place[asked], links[asked, 1]])
    found = {}
    for name, metric in (("mrr", LinkPredMRR(k)), (f"ndcg@{k}", LinkPredNDCG(k)), (f"recall@{k}", LinkPredRecall(k))):
        metric.update(best, truth)
        found[name] = float(metric.compute())
    return found
