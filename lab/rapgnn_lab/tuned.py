"""Settings chosen on validation by ``rapgnn tune`` and stored with the project, by dataset, method and embedding.

    python -m rapgnn_lab.tuned [--check]   # results/tune/*.json -> lab/rapgnn_lab/tuned.json

Of the searches for one dataset, method, embedding and column the one with the best validation metric counts. The
column is "faithful" for the paper's own space, "best" for all others, and "reachable" where a record says so.

``chosen`` marks the embedding that is best for RAP-GNN; ``tie_break_val_mean`` of further seeds decides where two are
equal. On the citation graphs 500 validation nodes cannot tell accuracies apart that differ by less than their standard
error: among the embeddings within one of the best the simplest is taken (Breiman's rule), as numbers that are drawn or
trained go.
"""

import json
import math
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from rapgnn import Config, Graph
from rapgnn.compare import BEST, Record
from rapgnn.errors import InputError, check_choice
from rapgnn.network.encode import EMBEDDINGS
from rapgnn.search.start import MANY_GRAPHS, start_config
from rapgnn_lab.baselines.systems import METHODS
from rapgnn_lab.results import results_folder, writer
from rapgnn_lab.store import packaged, read_records

FAITHFUL = "faithful"
REACHABLE = "reachable"
COLUMNS = (FAITHFUL, BEST, REACHABLE)
"""What a setting was chosen from: the paper's ranges, architecture and inference, or all that this library offers; and
the paper's ranges once more with the test rows choosing, which is no result but an upper bound."""

SHARING = ("fixed-diagonal", "identity", "fixed-full", "random-full")
"""RAP-GNN with other weights: what is compared is the weights, so all other settings are RAP-GNN's."""


@cache
def stored() -> list[dict[str, Any]]:
    """What the searches chose; ``tie_break`` decides among embeddings with the same value, ``chosen`` marks the one
    that a comparison of all of them chose."""
    return packaged("tuned.json")


def _rows(dataset: str, method: str, column: str, embedding: str) -> list[dict[str, Any]]:
    rows = [s for s in stored() if (s["dataset"], s["method"], s["column"]) == (dataset, method, column)]
    return rows if embedding == BEST else [s for s in rows if s["embedding"] == embedding]


def best_settings(
    dataset: str, method: str, embedding: str, higher: bool = True, faithful: bool = False
) -> dict[str, Any] | None:
    """What the searches chose for an embedding, or for the best one; None where no search was made.

    With ``faithful`` the paper's own space takes part, too.
    """
    column, sign = BEST if _rows(dataset, method, BEST, BEST) else FAITHFUL, 1 if higher else -1
    rows = _rows(dataset, method, column, embedding)
    rows = sorted(rows, key=lambda s: (s["chosen"], sign * s["val_mean"], sign * s["tie_break"]), reverse=True)[:1]
    rows += _rows(dataset, method, FAITHFUL, embedding) if faithful else []
    return max(rows, key=lambda s: sign * s["val_mean"])["settings"] if rows else None


def tuned_settings(graph: Graph, method: str, embedding: str) -> dict[str, Any] | None:
    """What ``rapgnn compare`` takes on a dataset (the entry-point group ``rapgnn.settings``); None where no search was
    made."""
    settings = best_settings(graph.name, method, embedding, graph.objective.higher)
    if settings is None and graph.ptr is not None and not METHODS[method].trained:
        # Weights of another kind in RAP-GNN's place, all else equal.
        settings = best_settings(graph.name, "rap", embedding, graph.objective.higher)
        if settings is not None and method == "random-full":  # every step draws d × d numbers and walks the graphs
            epochs = 20 if len(graph.train) < MANY_GRAPHS else 5
            width = min(64, settings.get("hidden_channels", 64))
            head = "linear" if settings.get("head") == "ridge" else settings.get("head", "linear")  # no exact mean
            settings = settings | {"hidden_channels": width, "epochs": epochs, "head": head}
    return settings


def chosen_config(graph: Graph, method: str, column: str, embedding: str | None = None, own: bool = False) -> Config:
    """The settings of a table's column.

    In the faithful column another kind of weights takes RAP-GNN's settings, all else equal. Full matrices are those of
    ``nn.Linear`` then: of the frameworks' two defaults, validation prefers it on the citation graphs.

    Without an ``embedding`` it is the one that validation chose, for ``"faithful"`` of those that the paper's method
    has: an MLP or one layer of the backbone, trained before. ``own``: the settings of a method's own search, where
    others would take RAP-GNN's.
    """
    check_choice("column", column, COLUMNS)
    trained = METHODS[method].trained
    shared = column == FAITHFUL and method in SHARING and not own
    settings = None if shared else _pick(graph, method, column, BEST if trained else embedding)
    if settings is None and not trained and not own:
        settings = _pick(graph, "rap", column, embedding)
        if settings is not None and METHODS[method].settings.get("structure") == "full" and column == FAITHFUL:
            settings = settings | {"structure": "full", "distribution": "linear"}
    if settings is None:
        raise InputError(f"no settings of {method} on {graph.name} were searched for the column {column}.")
    config = start_config(graph, trained).update(**settings)
    # A ridge head needs an exact mean, which full matrices drawn anew have not.
    return config.update(head="linear") if config.head == "ridge" and method == "random-full" else config


def _pick(graph: Graph, method: str, column: str, embedding: str | None) -> dict[str, Any] | None:
    """The settings of a column; the paper's own space is part of all that the library offers."""
    higher = graph.objective.higher
    if column == BEST:
        return best_settings(graph.name, method, embedding or BEST, higher, faithful=True)
    rows = _rows(graph.name, method, column, embedding or BEST)
    if embedding is None:
        rows = [row for row in rows if EMBEDDINGS[row["settings"]["embedding"]].trained == "before"]
    best = max(rows, key=lambda row: row["val_mean"] if higher else -row["val_mean"], default=None)
    return best and best["settings"]


TARGET = Path("lab/rapgnn_lab/tuned.json")
KEYS = ("dataset", "method", "embedding", "column", "space", "val_mean", "trials", "settings")
LOWER_IS_BETTER = ("rmse",)
VALIDATION_NODES = {"cora": 500, "citeseer": 500, "pubmed": 500}
SIMPLEST_FIRST = ("identity", "fixed-random", "pretrained", "pretrained-gnn", "learnable", "random")


def read_choices(root: Path = Path()) -> list[Record]:
    found = sorted((results_folder(root) / "tune").glob("*.json"))
    if not found:
        raise InputError("results/tune holds no .json file: write some with rapgnn tune --json.")
    return [record for file in found for record in read_records(file)]


def collect(records: Iterable[Record]) -> list[Record]:
    """The best choice for every dataset, method, embedding and column, with the value that breaks a tie."""
    usual: Record = {FAITHFUL: FAITHFUL}
    records = [{"column": usual.get(record.get("space", ""), BEST)} | record for record in records]
    ties = {_key(r): r["tie_break_val_mean"] for r in records if "tie_break_val_mean" in r}
    best: dict[tuple[str, ...], Record] = {}
    for record in (r for r in records if "settings" in r):
        key = _key(record)
        if key not in best or _merit(record) > _merit(best[key]):
            best[key] = record
    rows = []
    for key, record in sorted(best.items()):
        rivals = [other for other in best.values() if _key(other)[:2] + _key(other)[3:] == (key[0], "rap", BEST)]
        chosen = record in rivals and choose_embedding(rivals, ties) is record
        rows.append({name: record[name] for name in KEYS} | {"tie_break": ties.get(key, 0.0), "chosen": chosen})
    return rows


def choose_embedding(rows: Sequence[Record], ties: dict[tuple[str, ...], float]) -> Record:
    """The row of the embedding that is best for a dataset."""
    best = max(rows, key=lambda r: (_merit(r), ties.get(_key(r), 0.0)))
    nodes = VALIDATION_NODES.get(best["dataset"])
    if nodes is None:
        return best
    error = math.sqrt(best["val_mean"] * (1 - best["val_mean"]) / nodes)
    near = [r for r in rows if r["val_mean"] >= best["val_mean"] - error]
    return min(near, key=lambda r: SIMPLEST_FIRST.index(r["embedding"]))


def _key(record: Record) -> tuple[str, ...]:
    return record["dataset"], record["method"], record["embedding"], record["column"]


def _merit(record: Record) -> float:
    return -record["val_mean"] if record.get("metric") in LOWER_IS_BETTER else record["val_mean"]


def format_tuned(rows: Iterable[Record]) -> str:
    """The text of tuned.json: one line per choice."""
    return "[\n" + ",\n".join(" " + json.dumps(row) for row in rows) + "\n]\n"


main = writer("rapgnn_lab.tuned", __doc__, lambda root: {root / TARGET: format_tuned(collect(read_choices(root)))})


if __name__ == "__main__":
    sys.exit(main())
