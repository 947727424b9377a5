"""What random searches found, put into results/: the chosen settings, and every trial in compact form.

    python -m rapgnn.experiments.tune.keep FOLDER             # of rapgnn.experiments.tune.random_search --out FOLDER
    python -m rapgnn.experiments.tune.keep FOLDER --restore   # the other way, so that a search can go on

Writes results/tune/faithful.json, which ``rapgnn.experiments.tune.collect`` gathers, and
results/tune/faithful-trials.json.gz.
"""

import gzip
import json
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rapgnn.errors import InputError
from rapgnn.experiments.results import one_sentence, results_folder
from rapgnn.experiments.run import Record
from rapgnn.experiments.tune.lines import Lines
from rapgnn.experiments.tune.random_search import choose
from rapgnn.experiments.tune.searches import Search
from rapgnn.files import write_atomic
from rapgnn.training.methods import METHODS

CHOICES, TRIALS = "faithful.json", "faithful-trials.json.gz"


def search_named(name: str) -> Search:
    """The search whose files have this name: a dataset, a method, and an embedding where it is not the usual one."""
    dataset, _, rest = name.partition("-")
    for method in sorted(METHODS, key=len, reverse=True):
        if rest == method or rest.startswith(f"{method}-"):
            return Search(dataset, method, rest[len(method) + 1 :] or None)
    raise InputError(f"{name} is not the name of a search: DATASET-METHOD or DATASET-METHOD-EMBEDDING.")


def compact(name: str, lines: Lines) -> Record:
    """A search and its trials: settings once, values by seed."""
    trials: dict[int, dict[str, Any]] = {}
    for (trial, seed), line in sorted(lines.found.items()):
        kept = trials.setdefault(trial, {"trial": trial, "settings": line["settings"], "values": {}})
        kept["values"][str(seed)] = line["value"]
        kept["hardware"] = line.get("hardware")
        if "refused" in line:
            kept["refused"] = line["refused"]
    return {"search": name, "trials": list(trials.values())}


def keep(folder: Path, root: Path) -> list[Record]:
    """Write both files; the choices."""
    paths = sorted(folder.glob("*.jsonl"))
    if not paths:
        raise InputError(f"{folder} holds no search: name the folder that random_search --out wrote.")
    choices, every = [], []
    for path in paths:
        lines = Lines(path)
        seeds = sum(trial == 0 for trial, _ in lines.found)
        choices.append(choose(lines, search_named(path.stem), seeds))
        every.append(compact(path.stem, lines))
    target = results_folder(root) / "tune"
    text = json.dumps(choices, indent=1) + "\n"
    write_atomic(target / CHOICES, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    data = gzip.compress(json.dumps(every).encode(), mtime=0)
    write_atomic(target / TRIALS, lambda temporary: temporary.write_bytes(data))
    return choices


def restore(folder: Path, root: Path) -> list[str]:
    """Write the lines of every search that results/ holds and the folder does not; their names."""
    found = []
    for kept in json.loads(gzip.decompress((results_folder(root) / "tune" / TRIALS).read_bytes())):
        lines = Lines(folder / f"{kept['search']}.jsonl")
        if lines.found:
            continue
        for trial in kept["trials"]:
            rest = {name: trial[name] for name in ("trial", "settings", "hardware", "refused") if name in trial}
            for seed, value in trial["values"].items():
                lines.add(rest | {"seed": int(seed), "value": value})
        found.append(kept["search"])
    return found


@one_sentence
def main(words: Sequence[str] | None = None) -> int:
    """The command."""
    parser = ArgumentParser(prog="python -m rapgnn.experiments.tune.keep", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--root", type=Path, default=Path(), help="the repository (default: this folder)")
    parser.add_argument("--restore", action="store_true", help="write FOLDER from what results/ holds")
    given = parser.parse_args(words)
    if given.restore:
        print(f"restored {', '.join(restore(given.folder, given.root)) or 'nothing'}")
        return 0
    for choice in keep(given.folder, given.root):
        seeds = len(choice["val_values"])
        print(
            f"{choice['dataset']} {choice['method']} {choice['embedding']}: {choice['val_mean']:.4f} on validation, "
            f"trial {choice['trial']} of {choice['trials']}, {seeds} seed{'s' if seeds > 1 else ''}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
