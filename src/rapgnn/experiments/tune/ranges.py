"""The paper's hyperparameter ranges, reduced to one number of epochs and one depth of the head, and wider ones."""

from dataclasses import dataclass

from rapgnn.experiments.tune.faithful import TABLES, Table


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


def _reduced(table: Table) -> Range:
    """The fewest epochs where an epoch has batches, else the most; the deepest head."""
    return Range(
        list(table.embedding_layers),
        list(table.num_layers),
        table.lr,
        list(table.hidden_channels),
        max(table.epochs) if table.batch_size == (None,) else min(table.epochs),
        table.dropout,
        max(table.head_layers),
        table.batch_size,
    )


RANGES = {name: _reduced(table) for name, table in TABLES.items()}
# Past the paper: wider and deeper, for any graph; end-to-end training is searched here too.
WIDE = Range([1, 2], [2, 3, 4, 6, 8, 12, 16, 32], (0.001, 0.1), [64, 128, 256, 512], 500, (0.0, 0.9))
WIDE_GRAPHS = Range([1, 2], [1, 2, 3, 4, 5], (0.0005, 0.05), [32, 64, 128, 256], 350, (0.0, 0.6), 2, (128, 512))
