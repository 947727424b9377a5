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
    head_layers: int = 1
    batch_size: tuple[int | None, ...] = (None,)


RANGES = {
    "cora": Range([1, 2], [2, 4, 8, 16], (0.001, 0.01), [16, 32], 700, (0.0, 0.5)),
    "citeseer": Range([1, 2, 3], [2, 4, 6], (0.001, 0.01), [16, 32, 64, 128], 1000, (0.0, 0.5)),
    "pubmed": Range([1, 2, 3], [4, 6, 8, 12], (0.001, 0.01), [16, 64, 128, 256], 1000, (0.0, 0.5)),
    "mutag": Range([1, 2, 3], [1, 2, 3], (0.007, 0.05), [16, 64, 128], 1000, (0.0, 0.35), 2, (64, 128, 512)),
    "ptc": Range([1, 2, 3], [2, 3, 4, 6], (0.007, 0.05), [16, 64, 128], 1000, (0.0, 0.35), 2, (64, 128, 512)),
    "proteins": Range([1, 2, 3], [1, 2, 3, 4], (0.007, 0.05), [16, 32, 64], 1000, (0.0, 0.35), 1, (128, 256, 512)),
    "molesol": Range([1], [1, 2, 3], (0.001, 0.05), [16, 32], 350, (0.0, 0.6), 1, (256, 512)),
    "moltox21": Range([1], [2, 3, 4], (0.005, 0.01), [8, 16], 350, (0.0, 0.5), 1, (512,)),
    "molhiv": Range([1], [1, 2, 4, 6, 8], (0.001, 0.05), [32, 64, 128, 256], 350, (0.0, 0.6), 1, (512,)),
    "molbace": Range([1], [2, 4, 6], (0.0005, 0.01), [32, 64, 128], 350, (0.4, 0.6), 1, (512,)),
    "ogbn-proteins": Range([1], [3, 4, 6, 8], (0.007, 0.1), [240, 360], 1000, (0.2, 0.6), 4),
    "ogbn-products": Range([1], [2, 3, 4], (0.003, 0.03), [256, 300], 30, (0.15, 0.3)),
}
# Past the paper: wider and deeper, for any graph; end-to-end training is searched here too.
WIDE = Range([1, 2], [2, 3, 4, 6, 8, 12, 16, 32], (0.001, 0.1), [64, 128, 256, 512], 500, (0.0, 0.9))
WIDE_GRAPHS = Range([1, 2], [1, 2, 3, 4, 5], (0.0005, 0.05), [32, 64, 128, 256], 350, (0.0, 0.6), 2, (128, 512))
