"""Reservoir systems: networks whose random, signed, non-linear layers never change, with a readout on top.

Four published ones, each in a file of its own: FDGNN, U-GCN, MRGNN and P-RGNN.

In: a ``Graph`` and the system's own settings. Out: one row of features per node or graph and depth; ``training`` solves
for the readout.
"""
