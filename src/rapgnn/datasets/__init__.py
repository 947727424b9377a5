"""Where graphs come from: published datasets by name, generated graphs, and a user's own folder of tables.

In: a name or a path. Out: a ``Graph``; every downloaded file is checked by its SHA-256 before it is read.
"""

from rapgnn.datasets.catalog import DATASETS, SBM, find_dataset, load_dataset

__all__ = ["DATASETS", "SBM", "find_dataset", "load_dataset"]
