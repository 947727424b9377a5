"""Try RAP-GNN's chosen settings with the other weights that need no pass over the graph per epoch, on validation only.

    python scripts/share_settings.py results/tune/shared.json [cora citeseer pubmed]

The ablations then have two candidates each, their own search and these settings; validation decides between them
(`scripts/collect_defaults.py`). The seeds are those of a search and its confirmation.
"""

import json
import sys
from pathlib import Path

from rapgnn.datasets import load_dataset
from rapgnn.experiments.run import run
from rapgnn.experiments.tune.search import CONFIRM_SEED
from rapgnn.experiments.tuned import BEST, default_config

SEEDS = [0, 1, 2, *range(CONFIRM_SEED, CONFIRM_SEED + 5)]
METHODS = ("fixed-diagonal", "identity", "fixed-full")


def main(target: str, datasets: list[str]) -> None:
    records = []
    for dataset in datasets:
        graph = load_dataset(dataset)
        config = default_config(graph, "rap")
        assert config.embedding != BEST
        for method in METHODS:
            record = run(method, graph, config, SEEDS, splits=("val",))
            settings = {k: v for k, v in config.to_dict().items() if k not in ("structure", "schedule")}
            records.append(
                {"dataset": dataset, "method": method, "embedding": config.embedding, "space": "settings of rap"}
                | {
                    "settings": settings,
                    "val_mean": record["val_mean"],
                    "val_values": record["val_values"],
                    "trials": 1,
                }
            )
            print(dataset, method, round(record["val_mean"], 4), flush=True)
    Path(target).write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] or ["cora", "citeseer", "pubmed"])
