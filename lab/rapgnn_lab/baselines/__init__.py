"""Reservoir systems: networks whose random, signed, non-linear layers never change, with a readout on top.

Four published ones (`encoders.py`, `prgnn.py`), `reservoir.py` with what they share, random layers among it, and
`systems.py` that trains them.

In: a ``Graph`` and the system's own settings. Out: one row of features per node or graph and depth; ``training`` solves
for the readout.
"""
