"""The paper's tables and figures measured again, ours beside the published values.

In: the names of items. Out: a folder with the records, the tables and the plots of each.

An item (``item.py``) lists its cells, the single measurements (``cells.py``). Each cell is measured by the function of
its kind (``kinds.py``) and stored at once (``store.py``), so that a run that was stopped goes on where it was.
"""
