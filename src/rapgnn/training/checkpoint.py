"""A trained model as a folder: safetensors for the numbers, JSON for everything else, no pickle.

``checkpoint.json`` names the file of numbers and its SHA-256 and is replaced last, in one step: whatever moment a save
is killed at, the folder holds the old model or the new one.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import torch

from rapgnn.errors import InputError, shown
from rapgnn.files import check_writable, sha256, write_atomic
from rapgnn.graph.backbones import BACKBONES
from rapgnn.layers.embedding import EMBEDDINGS
from rapgnn.models.config import Config
from rapgnn.models.rapgnn import RAPGNN
from rapgnn.training.schema import Schema
from rapgnn.versions import versions

FORMAT, VERSION = "rapgnn checkpoint", 2
INDEX = "checkpoint.json"
_FILE_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}\.safetensors")  # in the folder includes_self, nowhere else
_OUTSIDE = ("weights", "sha256", "versions")  # what the digest of an index leaves out


def index_digest(index: dict[str, Any]) -> str:
    """What the file of numbers keeps of its index, so that neither can be altered without the other."""
    covered = {key: value for key, value in index.items() if key not in _OUTSIDE}
    return hashlib.sha256(json.dumps(covered, sort_keys=True).encode()).hexdigest()


def check_target(folder: Path) -> None:
    """Refuse a folder that cannot be written, or holds something else, before any work is done for it."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"cannot save to {folder}: it is a file.")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / INDEX).exists():
        raise InputError(f"cannot save to {folder}: it holds other files; name an empty or a new folder.")
    check_writable(folder / INDEX)


def save_checkpoint(folder: Path, model: RAPGNN, schema: Schema) -> None:
    """Write the model into ``folder``, over an older one if there is one."""
    from safetensors.torch import save_file

    folder = Path(folder)
    check_target(folder)
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    index: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "weights": "",
        "sha256": "",
        "schema": schema.to_dict(),
        "schema_hash": schema.digest(),
        "config": model.config.to_dict(),
        "seed": int(model.seed),
        "draw_counter": int(model.draw_counter),
        "versions": versions(),
    }
    numbers = folder / "new.safetensors"
    write_atomic(numbers, lambda temporary: save_file(state, temporary, {"index": index_digest(index)}))
    digest = sha256(numbers)
    named = folder / f"weights-{digest[:16]}.safetensors"
    numbers.replace(named)
    index |= {"weights": named.name, "sha256": digest}
    write_atomic(folder / INDEX, lambda temporary: temporary.write_text(json.dumps(index, indent=1) + "\n"))
    for old in folder.glob("*.safetensors"):  # what the index no longer names
        if old.name != named.name:
            old.unlink(missing_ok=True)


def load_checkpoint(folder: Path, task: str | None = None) -> tuple[RAPGNN, Schema]:
    """The model in ``folder``, ready to predict.

    Args:
        task: a name from ``TASKS`` that the model must be for.
    """
    folder = Path(folder)
    index = _index(folder)
    try:
        schema = Schema.from_dict(index["schema"])
    except InputError as error:
        raise InputError(f"{folder / INDEX} is damaged: {str(error).rstrip('.')}.") from error
    if schema.digest() != index["schema_hash"]:
        raise InputError(f"{folder / INDEX} is damaged: its schema does not match its hash.")
    if task is not None and schema.task != task:
        raise InputError(f"the model in {folder} is for {schema.task}, not for {task}.")
    state = _numbers(folder, index)
    try:
        config = Config(**index["config"])
        _check_sizes(config, schema, state)
        channels = {"out_channels": schema.out_channels, "edge_channels": schema.edge_channels}
        model = RAPGNN(schema.in_channels, **channels, seed=index["seed"], config=config)
        _check_numbers(model, state)
        model.load_state_dict(state)
    except (TypeError, RuntimeError, ValueError, KeyError, OverflowError) as error:
        raise InputError(f"{folder} is damaged: {str(error).splitlines()[0].rstrip('.:')}.") from error
    model.requires_grad_(False)
    return model.eval(), schema


def _check_sizes(config: Config, schema: Schema, state: dict[str, torch.Tensor]) -> None:
    """Refuse widths that the file of numbers does not bear out, before memory is taken for them."""
    largest = max((size for tensor in state.values() for size in tensor.shape), default=0)
    rule, kind = BACKBONES[config.backbone], EMBEDDINGS[config.embedding]
    widths = {
        "in_channels": schema.in_channels,
        "out_channels": schema.out_channels,
        "edge_channels": schema.edge_channels if rule.edges else 0,
        "hidden_channels": config.hidden_channels if kind.mlp or config.head == "mlp" else 0,
        "random_features": config.random_features,
        "num_layers": config.num_layers if config.jumping == "cat" else 0,
    }
    wrong = next((name for name, width in widths.items() if width > largest), None)
    if wrong is not None:
        raise InputError(f"its numbers are not those of a model with {wrong} {widths[wrong]}")


def _check_numbers(model: RAPGNN, state: dict[str, torch.Tensor]) -> None:
    """Refuse what would be converted without a word, and what no training ends with."""
    for name, tensor in model.state_dict().items():
        if name not in state:  # load_state_dict says so
            continue
        given = state[name]
        if given.dtype != tensor.dtype:
            raise InputError(f"{name} holds {given.dtype}, not {tensor.dtype}")
        if given.is_floating_point() and not bool(torch.isfinite(given).all()):
            raise InputError(f"{name} holds NaN or infinite values")


def _index(folder: Path) -> dict[str, Any]:
    path = folder / INDEX
    if not path.is_file():
        raise InputError(f"{folder} holds no model: {INDEX} is missing.")
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
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


def _numbers(folder: Path, index: dict[str, Any]) -> dict[str, torch.Tensor]:
    from safetensors import SafetensorError, safe_open

    path = folder / index["weights"]
    if not path.is_file():
        raise InputError(f"{folder} is damaged: {path.name} is missing.")
    if sha256(path) != index["sha256"]:
        raise InputError(f"{path} is truncated or altered: its SHA-256 is not the one noted in {INDEX}.")
    try:
        with safe_open(path, framework="pt") as file:
            kept = (file.metadata() or {}).get("index")
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, RuntimeError, KeyError, TypeError, OverflowError) as error:
        raise InputError(f"cannot read {path}: {str(error).rstrip('.')}.") from error
    if kept is not None and kept != index_digest(index):  # older files keep none
        raise InputError(f"{folder / INDEX} is damaged: it is not the one that {path.name} was saved with.")
    return state
