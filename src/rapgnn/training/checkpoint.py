"""A trained model as a folder: safetensors for the numbers, JSON for everything else, no pickle.

``checkpoint.json`` names the file of numbers and its SHA-256 and is replaced last, in one step: whatever moment a save
is killed at, the folder holds the old model or the new one. Saves into one folder wait for each other. A load that a
save overtakes is begun again.
"""

import contextlib
import hashlib
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import torch

from rapgnn.errors import InputError, shown
from rapgnn.files import (
    TEMPORARY,
    check_writable,
    is_regular,
    locked,
    new_folder,
    read_regular,
    write_atomic,
    write_error,
)
from rapgnn.graph.backbones import BACKBONES
from rapgnn.layers.embedding import EMBEDDINGS
from rapgnn.models.average import Average
from rapgnn.models.rapgnn import RAPGNN
from rapgnn.training.numbers import MissingError, read_header, read_numbers
from rapgnn.training.saved import IN_INDEX, VERSION, build, check_tensors, described, members_of, version_of
from rapgnn.training.schema import Schema
from rapgnn.versions import versions

FORMAT = "rapgnn checkpoint"
INDEX = "checkpoint.json"
ATTEMPTS, SWAPS = 50, 5  # of a load that saves overtake, and where the file of numbers is missing
MOST_INDEX = 1 << 28  # bytes; a million classes by name are some 30 MB
_FILE_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}\.safetensors")  # in the folder itself, nowhere else
_NUMBERS = re.compile(r"(weights-[0-9a-f]{16}|new)\.safetensors")
_FORMER_TEMPORARY = re.compile(r"\.(new\.safetensors|checkpoint\.json)\.[a-z0-9_]{8}\.(safetensors|json)")
_OUTSIDE = ("weights", "sha256", "versions")  # what the digest of an index leaves out


def index_digest(index: dict[str, Any]) -> str:
    """What the file of numbers keeps of its index, so that neither can be altered without the other."""
    covered = {key: value for key, value in index.items() if key not in _OUTSIDE}
    return hashlib.sha256(json.dumps(covered, sort_keys=True).encode()).hexdigest()


def check_target(folder: Path) -> bool:
    """Refuse a folder that cannot be written, or holds something else; True where it holds a model to be replaced."""
    try:
        entries = sorted(folder.iterdir()) if folder.exists() else []
    except NotADirectoryError:
        raise InputError(f"cannot save to {folder}: it is a file.") from None
    except (OSError, ValueError) as error:
        raise write_error(folder, error) from error
    index = folder / INDEX
    held = index in entries
    if held and not _is_ours(index):
        raise InputError(
            f"cannot save to {folder}: its {INDEX} is not a model of rapgnn; name an empty or a new folder."
        )
    if not held and not all(_is_left_over(path) for path in entries):
        raise InputError(f"cannot save to {folder}: it holds other files; name an empty or a new folder.")
    check_writable(index)
    return held


def save_checkpoint(folder: Path, model: RAPGNN | Average, schema: Schema) -> None:
    """Write the model into ``folder``, over an older one if there is one."""
    from safetensors.torch import save

    folder = Path(folder)
    check_target(folder)
    kept = {name: t for name, t in model.state_dict().items() if not name.endswith(IN_INDEX)}
    state = {name: t.detach().cpu().contiguous().clone() for name, t in kept.items()}  # members may share tensors
    index: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION if schema.scoring is not None else version_of(model),
        "weights": "",
        "sha256": "",
        "schema": schema.to_dict(),
        "schema_hash": schema.digest(),
        "config": model.config.to_dict(),
        "seed": int(model.seed),
        "versions": versions(),
    }
    if isinstance(model, RAPGNN):
        index["draw_counter"] = int(model.draw_counter)
    else:
        index["draw_counter"] = 0  # members predict by their exact expectation
        index["members"] = described(model)
    numbers = save(state, {"index": index_digest(index)})
    digest = hashlib.sha256(numbers).hexdigest()
    index |= {"weights": f"weights-{digest[:16]}.safetensors", "sha256": digest}
    try:
        with new_folder(folder), locked(folder) as alone:
            check_target(folder)  # another save may have been here
            _replace(folder, index, numbers, alone)
    except OSError as error:
        raise write_error(folder, error) from error


def _replace(folder: Path, index: dict[str, Any], numbers: bytes, alone: bool) -> None:
    before, named = _named(folder), folder / index["weights"]
    try:
        write_atomic(named, lambda temporary: temporary.write_bytes(numbers), like=before)
        write_atomic(folder / INDEX, lambda temporary: temporary.write_text(json.dumps(index, indent=1) + "\n"))
    except BaseException:
        if named != before:
            with contextlib.suppress(OSError):
                named.unlink(missing_ok=True)
        raise
    # Without a lock another save may be on its way: then only what the last index named is known to be old.
    old = {before} | ({path for path in folder.iterdir() if _is_left_over(path)} if alone else set())
    for path in filter(None, old - {named}):
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _named(folder: Path) -> Path | None:
    """The file of numbers that the folder's index names."""
    try:
        return folder / _index(folder)["weights"]
    except InputError:
        return None


def _is_ours(index: Path) -> bool:
    try:
        told = json.loads(read_regular(index, MOST_INDEX))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(told, dict) and told.get("format") == FORMAT


def _is_left_over(path: Path) -> bool:
    """Whether a save that was killed left this: a temporary file, or numbers that no index names.

    So is what is gone by now: another save has renamed or removed it since the folder was listed.
    """
    return _looks_left_over(path) or not os.path.lexists(path)


def _looks_left_over(path: Path) -> bool:
    if TEMPORARY.fullmatch(path.name) or _FORMER_TEMPORARY.fullmatch(path.name):
        return is_regular(path)
    if not _NUMBERS.fullmatch(path.name) or not is_regular(path):
        return False
    try:
        return read_header(path).index is not None
    except InputError:
        return False


def load_checkpoint(folder: Path, task: str | None = None) -> tuple[Any, Schema]:
    """The model in ``folder``, ready to predict.

    Args:
        task: a name from ``TASKS`` that the model must be for.
    """
    folder = Path(folder)
    for attempt in range(ATTEMPTS):
        seen = _moment(folder)
        try:
            return _load(folder, task)
        except InputError as error:
            # Damage is real where nothing changed while the files were read; else a save came between them. A folder
            # that was swapped twice looks unchanged: what is missing may be there again.
            same = _moment(folder) == seen and (seen is not None or attempt == 0)
            again = same and isinstance(error, MissingError) and attempt < SWAPS
            if (same and not again) or attempt + 1 == ATTEMPTS:
                raise
        time.sleep(min(0.05, 0.001 * 2**attempt))
    raise AssertionError


def _moment(folder: Path) -> tuple[Any, ...] | None:
    """What changes whenever a save replaces the index."""
    try:
        found = os.stat(folder / INDEX)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def _load(folder: Path, task: str | None) -> tuple[RAPGNN | Average, Schema]:
    index = _index(folder)
    try:
        schema = Schema.from_dict(index["schema"])
    except InputError as error:
        raise InputError(f"{folder / INDEX} is damaged: {str(error).rstrip('.')}.") from error
    if schema.digest() != index["schema_hash"]:
        raise InputError(f"{folder / INDEX} is damaged: its schema does not match its hash.")
    if task is not None and schema.task != task:
        raise InputError(f"the model in {folder} is for {schema.task}, not for {task}.")
    path = folder / index["weights"]
    header = read_header(path)
    if header.index is not None and header.index != index_digest(index):  # older files keep none
        raise InputError(f"{folder / INDEX} is damaged: it is not the one that {path.name} was saved with.")
    members = members_of(folder / INDEX, index)
    for member in members:
        _check_registered(folder, member["config"])
    check_tensors(folder, members, "members" in index, schema, header)
    state = read_numbers(path, header, index["sha256"], INDEX)
    with torch.device("cpu"):
        model = build(members, "members" in index, schema)
    model.load_state_dict(state)
    model.requires_grad_(False)
    return model.eval(), schema


def _check_registered(folder: Path, config: dict[str, Any]) -> None:
    """Refuse a model whose own backbone or embedding this process does not know, by that name."""
    for name, table, home in (("backbone", BACKBONES, "BACKBONES"), ("embedding", EMBEDDINGS, "EMBEDDINGS")):
        given = config.get(name)
        if isinstance(given, str) and given not in table:
            raise InputError(
                f"the model in {folder} uses the {name} {shown(given)}, which is not registered: "
                f"add it to {home} before the model is loaded."
            )


def _index(folder: Path) -> dict[str, Any]:
    path = folder / INDEX
    if not is_regular(path):
        raise InputError(f"{folder} holds no model: {INDEX} is missing.")
    try:
        index = json.loads(read_regular(path, MOST_INDEX).decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged: it is not JSON.") from error
    if not isinstance(index, dict) or index.get("format") != FORMAT:
        raise InputError(f"{path} is not a model of rapgnn.")
    version = index.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise InputError(f"{path} is damaged: version is missing or not what it should be.")
    if version > VERSION:
        raise InputError(f"{path} was written by a newer rapgnn (format {shown(version)}, this one reads {VERSION}).")
    kinds = {"weights": str, "sha256": str, "schema": dict, "schema_hash": str, "config": dict, "seed": int}
    wrong = next((key for key, kind in kinds.items() if not isinstance(index.get(key), kind)), None)
    if wrong is None and not _FILE_NAME.fullmatch(index["weights"]):
        wrong = "weights"
    if wrong is None and isinstance(index["seed"], bool):
        wrong = "seed"
    if wrong is not None:
        raise InputError(f"{path} is damaged: {wrong} is missing or not what it should be.")
    return index
