"""The random layers: their rule, layer by layer (the reference), and the exact polynomial shortcut.

In: embedded features h⁰ and a graph's operator. Out: the representation that a head sees, of one draw or of many, its
exact expectation and variance, and which engine gives it and why. What docs teach of this room is importable from here.
"""

from rapgnn.propagation.polynomial import PolynomialFilter
from rapgnn.propagation.spec import Propagation
from rapgnn.propagation.stepwise import propagate

__all__ = ["PolynomialFilter", "Propagation", "propagate"]
