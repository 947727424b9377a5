"""How sure an average is: one number that all members' scores are multiplied with."""

import copy
from typing import Any

from torch import nn

from rapgnn.estimators.draws import Draws
from rapgnn.estimators.judge import Judge
from rapgnn.models.random_net import RandomNet
from rapgnn.models.treated import TreatedRAP
from rapgnn.training.averaged import scores_of

FACTORS = tuple(10.0 ** (k / 16) for k in range(-8, 13))


def sharpening(draws: Draws, judge: Judge) -> float:
    """The factor with which the average makes the labels of the rows that judge likeliest.

    Each member has a temperature of its own. The average of members that are sure of different rows is less sure than
    it should be.
    """
    if judge.objective.metric == "rmse":
        return 1.0
    losses = [judge.loss_of(scores_of(draws.mean(judge.objective, factor), judge.objective)) for factor in FACTORS]
    return FACTORS[min(range(len(FACTORS)), key=lambda at: (losses[at], abs(FACTORS[at] - 1)))]


def sharper(model: Any, factor: float) -> nn.Module:
    """A member whose scores are so many times larger.

    A random network that stands before another one in the same average stays as it is there, so a twin of it is made.
    """
    if isinstance(model, RandomNet):
        twin = copy.copy(model)
        twin._buffers = model._buffers | {"sharpness": model.sharpness * factor}
        return twin
    head: Any = (model.network if isinstance(model, TreatedRAP) else model).head
    head.sharpness.mul_(factor)
    return model
