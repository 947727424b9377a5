"""The paper's hyperparameter ranges (its tables of search spaces): sets as lists, intervals as pairs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Range:
    """What the paper searched for one dataset; what it does not state is left to ``rapgnn.search``."""

    embedding_layers: list[int]
    num_layers: list[int]
    lr: tuple[float, float]
    hidden_channels: list[int]
    epochs: int
    dropout: tuple[float, float]


RANGES = {
    "cora": Range([1, 2], [2, 4, 8, 16], (0.001, 0.01), [16, 32], 700, (0.0, 0.5)),
    "citeseer": Range([1, 2, 3], [2, 4, 6], (0.001, 0.01), [16, 32, 64, 128], 1000, (0.0, 0.5)),
    "pubmed": Range([1, 2, 3], [4, 6, 8, 12], (0.001, 0.01), [16, 64, 128, 256], 1000, (0.0, 0.5)),
}
# Past the paper: wider and deeper, for any graph; end-to-end training is searched here too.
WIDE = Range([1, 2], [2, 3, 4, 6, 8, 12, 16, 32], (0.001, 0.1), [64, 128, 256, 512], 500, (0.0, 0.9))
