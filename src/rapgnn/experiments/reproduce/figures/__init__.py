"""The paper's figures: time, memory and accuracy by depth, rank and variance by layer, trained weight matrices.

In: graphs and a scale. Out: items, with the kinds of measurement that only they have.
"""
