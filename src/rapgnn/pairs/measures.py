"""How good scores of pairs, and recommendations, are."""

import numpy as np
import torch
from torch import Tensor

from rapgnn.pairs.model import LinksOn
from rapgnn.pairs.ranking import ranked

HITS = (20, 50, 100)


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


def ranking_measures(on: LinksOn, links: Tensor, k: int, most: int, seed: int) -> dict[str, float]:
    """MRR, NDCG@k and Recall@k of the recommendations for nodes with held-out links, of ``most`` of them at most."""
    both = links if on.links.directed or on.links.bipartite else torch.cat([links, links.flip(1)])
    if on.links.bipartite:
        both = on.links.ordered(both)
    nodes = torch.unique(both[:, 0])
    if len(nodes) > most:
        nodes = nodes[torch.from_numpy(np.sort(np.random.default_rng(seed).permutation(len(nodes))[:most]))]
    node, neighbour, _ = ranked(on, nodes, k)
    return measured(nodes, both, node, neighbour, k)


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
