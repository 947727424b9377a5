"""Gather what searches chose (`rapgnn tune --json`) into the defaults stored with the package.

    python scripts/collect_defaults.py results/tune/*.json

Of the searches for one dataset, strategy and embedding the one with the best validation metric counts. Where two
embeddings tie, further validation seeds decide (records with ``tie_break_val_mean``).
"""

import json
import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parents[1] / "src" / "rapgnn" / "defaults.json"
KEYS = ("dataset", "method", "embedding", "space", "val_mean", "trials", "settings")


def _key(record: dict) -> tuple[str, str, str]:
    return record["dataset"], record["method"], record["embedding"]


def main(paths: list[str]) -> None:
    given = [record for path in paths for record in json.loads(Path(path).read_text())]
    records = [record for record in given if "settings" in record]
    ties = {_key(r): r["tie_break_val_mean"] for r in given if "tie_break_val_mean" in r}
    best: dict[tuple[str, str, str], dict] = {}
    for record in records:
        key = _key(record)
        sign = -1 if record.get("metric") == "rmse" else 1
        if key not in best or sign * record["val_mean"] > sign * best[key]["val_mean"]:
            best[key] = {name: record[name] for name in KEYS} | {"tie_break": ties.get(key, 0.0)}
    rows = [best[key] for key in sorted(best)]
    TARGET.write_text("[\n" + ",\n".join(" " + json.dumps(row) for row in rows) + "\n]\n")
    print(f"{len(rows)} defaults in {TARGET}")


if __name__ == "__main__":
    main(sys.argv[1:])
