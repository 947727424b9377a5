"""The paper's tables and figures measured again, ours beside the published values.

In: the names of items. Out: a folder with the records, the tables and the plots of each.

An item (``items.py``) lists its cells, the single measurements (``cells.py``). Each is measured by the function of its
kind (``accuracy.py``, ``timed.py``, ``layers.py``) and stored at once, so that a run (``run.py``) that was stopped goes
on where it was.
"""
