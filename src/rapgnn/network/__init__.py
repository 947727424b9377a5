"""A network's five stages, encode → propagate → expand → readout → head: settings, engines, whole networks.

In: a ``Config`` and a graph's operator. Out: ``RAPGNN``, ``HopNetwork``, averages of them: modules that give scores;
``training`` trains them. What docs teach of this room is importable from here.
"""

from rapgnn.network.config import Config
from rapgnn.network.polynomial import PolynomialFilter
from rapgnn.network.propagation import Propagation
from rapgnn.network.rapgnn import RAPGNN
from rapgnn.network.stepwise import propagate
from rapgnn.network.weights import RandomWeights

__all__ = ["RAPGNN", "Config", "PolynomialFilter", "Propagation", "RandomWeights", "propagate"]
