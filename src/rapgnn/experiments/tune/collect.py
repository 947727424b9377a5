"""The settings stored with the package, gathered from what the searches chose.

    python -m rapgnn.experiments.tune.collect [--check]   # results/tune/*.json -> src/rapgnn/experiments/tuned.json

Of the searches for one dataset, method, embedding and column the one with the best validation metric counts. The
column is "faithful" for the paper's own space and "best" for all others.

``chosen`` marks the embedding that is best for RAP-GNN. On the citation graphs 500 validation nodes cannot tell
accuracies apart that differ by less than their standard error. So among the embeddings within one standard error of the
best the simplest is taken (Breiman's rule), as numbers that are drawn or trained go: the features as they are, a drawn
embedding, a trained one. Elsewhere the best value counts; ``tie_break_val_mean`` of further seeds decides where two are
equal.
"""

import json
import math
import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from pathlib import Path

from rapgnn.errors import InputError
from rapgnn.experiments.results import one_sentence, results_folder
from rapgnn.experiments.run import Record
from rapgnn.experiments.tuned import BEST, FAITHFUL
from rapgnn.files import write_atomic

TARGET = Path("src/rapgnn/experiments/tuned.json")
KEYS = ("dataset", "method", "embedding", "column", "space", "val_mean", "trials", "settings")
LOWER_IS_BETTER = ("rmse",)
VALIDATION_NODES = {"cora": 500, "citeseer": 500, "pubmed": 500}
SIMPLEST_FIRST = ("identity", "fixed-random", "pretrained", "pretrained-gnn", "learnable", "random")


def read_choices(root: Path = Path()) -> list[Record]:
    """What every search chose, from results/tune/*.json."""
    files = sorted((results_folder(root) / "tune").glob("*.json"))
    if not files:
        raise InputError("results/tune holds no .json file: write some with rapgnn tune --json.")
    return [record for file in files for record in json.loads(file.read_text(encoding="utf-8"))]


def collect(records: Iterable[Record]) -> list[Record]:
    """The best choice for every dataset, method and embedding, with the value that breaks a tie."""
    records = list(records)
    ties = {_key(r): r["tie_break_val_mean"] for r in records if "tie_break_val_mean" in r}
    best: dict[tuple[str, ...], Record] = {}
    for record in (r for r in records if "settings" in r):
        key = _key(record)
        if key not in best or _merit(record) > _merit(best[key]):
            best[key] = record
    rows = [
        {name: (best[key] | {"column": column(best[key])})[name] for name in KEYS}
        | {"tie_break": ties.get(key, 0.0), "chosen": False, "metric": best[key].get("metric")}
        for key in sorted(best)
    ]
    for dataset in {row["dataset"] for row in rows}:
        mine = [r for r in rows if (r["dataset"], r["method"], r["column"]) == (dataset, "rap", BEST)]
        if mine:
            choose_embedding(mine)["chosen"] = True
    return [{name: value for name, value in row.items() if name != "metric"} for row in rows]


def choose_embedding(rows: Sequence[Record]) -> Record:
    """The row of the embedding that is best for a dataset."""
    best = max(rows, key=lambda r: (_merit(r), r["tie_break"]))
    nodes = VALIDATION_NODES.get(best["dataset"])
    if nodes is None:
        return best
    error = math.sqrt(best["val_mean"] * (1 - best["val_mean"]) / nodes)
    near = [r for r in rows if r["val_mean"] >= best["val_mean"] - error]
    return min(near, key=lambda r: SIMPLEST_FIRST.index(r["embedding"]))


def column(record: Record) -> str:
    """Where tables show what a search chose."""
    return FAITHFUL if record.get("space") == FAITHFUL else BEST


def _key(record: Record) -> tuple[str, ...]:
    return record["dataset"], record["method"], record["embedding"], column(record)


def _merit(record: Record) -> float:
    value = record["val_mean"]
    return -value if record.get("metric") in LOWER_IS_BETTER else value


def format_tuned(rows: Iterable[Record]) -> str:
    """The text of tuned.json: one line per choice."""
    return "[\n" + ",\n".join(" " + json.dumps(row) for row in rows) + "\n]\n"


@one_sentence
def main(words: Sequence[str] | None = None) -> int:
    """The command."""
    parser = ArgumentParser(
        prog="python -m rapgnn.experiments.tune.collect", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--check", action="store_true", help="change nothing; exit code 1 if tuned.json differs")
    parser.add_argument("--root", type=Path, default=Path(), help="the repository (default: this folder)")
    given = parser.parse_args(words)
    target = given.root / TARGET
    rows = collect(read_choices(given.root))
    text = format_tuned(rows)
    same = target.is_file() and target.read_text(encoding="utf-8") == text
    if not given.check:
        write_atomic(target, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    if given.check and not same:
        print(f"{TARGET} differs from what results/tune says")
        return 1
    print(f"{len(rows)} choices in {TARGET}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
