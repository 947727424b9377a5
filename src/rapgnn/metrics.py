"""What a prediction is worth: accuracy, and ROC-AUC averaged over labels as OGB defines it."""

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor

METRICS = {"node-classification": "accuracy", "node-multilabel": "rocauc"}


def accuracy(scores: Tensor, y: Tensor) -> float:
    """Share of rows whose highest score is at the true class."""
    return float((scores.argmax(dim=-1) == y).double().mean()) if len(y) else float("nan")


def rocauc(scores: Tensor, y: Tensor) -> float:
    """Area under the ROC curve, averaged over the labels that have both a positive and a negative known row."""
    values = []
    for score, truth in zip(scores.T.cpu().numpy(), y.T.cpu().numpy(), strict=True):
        known = ~np.isnan(truth)
        positive = truth[known] == 1
        p, q = int(positive.sum()), int((~positive).sum())
        if p and q:
            ranks = rankdata(score[known])
            values.append((ranks[positive].sum() - p * (p + 1) / 2) / (p * q))
    return float(np.mean(values)) if values else float("nan")


def score(task: str, scores: Tensor, y: Tensor) -> float:
    """The task's metric, higher is better."""
    return {"accuracy": accuracy, "rocauc": rocauc}[METRICS[task]](scores.detach(), y)


def loss(scores: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy for classes; binary cross-entropy over the known entries for many labels."""
    if y.dim() == 1:
        return torch.nn.functional.cross_entropy(scores, y)
    known = ~y.isnan()
    return torch.nn.functional.binary_cross_entropy_with_logits(scores[known], y[known])


def probabilities(scores: Tensor, multilabel: bool) -> Tensor:
    return torch.sigmoid(scores) if multilabel else torch.softmax(scores, dim=-1)
