"""The committed measurements: ``results/<command>/<dataset>.json`` in the repository, a list of records each."""

import functools
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rapgnn.errors import InputError
from rapgnn.experiments.run import Record
from rapgnn.files import write_atomic


def results_folder(root: Path) -> Path:
    """``results`` of the repository ``root``, which must be there."""
    folder = root / "results"
    if not folder.is_dir():
        raise InputError(f"there is no folder results in {root.resolve()}: run this in the repository, or name --root.")
    return folder


def read_records(root: Path, command: str, dataset: str) -> list[Record]:
    """What a command measured on a dataset."""
    path = results_folder(root) / command / f"{dataset}.json"
    if not path.is_file():
        raise InputError(f"results/{command}/{dataset}.json is not there: {command} was not measured on {dataset}.")
    return json.loads(path.read_text(encoding="utf-8"))


def write_records(root: Path, command: str, dataset: str, records: Sequence[Record]) -> Path:
    """Put the records of a command on a dataset in place of those that were there."""
    path = results_folder(root) / command / f"{dataset}.json"
    text = json.dumps(list(records), indent=1) + "\n"
    write_atomic(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return path


def one_sentence(main: Callable[..., int]) -> Callable[..., int]:
    """A ``python -m`` command that ends with one sentence and exit code 2 where its input is refused."""

    @functools.wraps(main)
    def command(words: Sequence[str] | None = None) -> int:
        try:
            return main(words)
        except InputError as error:
            print(error, file=sys.stderr)
            return 2

    return command
