"""A trained model as a folder: safetensors for the numbers, JSON for everything else, no pickle.

``checkpoint.json`` names the file of numbers, whose name is made of its content, and is replaced after it, in one
step: whatever moment a save is killed at, the folder holds the old model or the new one. ``MODEL.md``, for people,
comes last. Saves into one folder wait for each other. A load whose file of numbers a save has replaced begins again.
"""

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rapgnn.device import versions
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
from rapgnn.network.config import Config
from rapgnn.network.encode import EMBEDDINGS
from rapgnn.network.known_labels import FitRows
from rapgnn.network.network import Average, HopNetwork
from rapgnn.network.rapgnn import RAPGNN
from rapgnn.network.trees import TreeHead
from rapgnn.training.schema import Schema

FORMAT = "rapgnn checkpoint"
INDEX, CARD = "checkpoint.json", "MODEL.md"
MOST_INDEX = 1 << 28  # bytes; a million classes by name are some 30 MB
_FILE_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}\.safetensors")  # in the folder itself, nowhere else
_NUMBERS = re.compile(r"weights-[0-9a-f]{16}\.safetensors")
MARK = {"program": FORMAT}  # of our files of numbers, so that a user's own are left alone


class MissingError(InputError):
    """The file is not there, or not any more."""


def index_digest(index: dict[str, Any]) -> str:
    """What an index says of itself, so that none of it is altered unnoticed; the versions say where it was made."""
    covered = {key: value for key, value in index.items() if key not in ("digest", "versions")}
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
    if held:
        try:
            _content(index)
        except InputError as error:
            is_none = f"its {INDEX} is not a model of rapgnn; name an empty or a new folder."
            raise InputError(f"cannot save to {folder}: {is_none}") from error
    if not held and not all(_is_left_over(path) for path in entries):
        raise InputError(f"cannot save to {folder}: it holds other files; name an empty or a new folder.")
    check_writable(index)
    return held


Make = Callable[[dict[str, Any], int], nn.Module]


def save_checkpoint(folder: Path, model: Any, schema: Schema, card: str | None = None) -> None:
    """Write the model into ``folder``, over an older one if there is one.

    Args:
        card: Markdown for people, written beside the model once that is in place, and never read; None: none.
    """
    from safetensors.torch import save

    folder = Path(folder)
    check_target(folder)
    tensors = {name: t for name, t in model.state_dict().items() if not name.endswith(IN_INDEX)}
    state = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}  # members may share them
    index: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "weights": "",
        "sha256": "",
        "schema": schema.to_dict(),
        "config": model.config.to_dict(),
        "seed": int(model.seed),
        "versions": versions(),
    }
    # Members of an average predict by their exact expectation.
    index["draw_counter"] = int(model.draw_counter) if isinstance(model, RAPGNN) else 0
    if isinstance(model, Average):
        index["members"] = described(model)
        index |= {} if model.classes is None else {"answers": list(model.classes)}
    if (rows := getattr(model, "fit_rows", None)) is not None:
        index["rows"] = rows.shape
    if (columns := getattr(model, "edge_columns", None)) is not None:
        index["edge_columns"] = columns.config.to_dict()
    numbers = save(state, MARK)
    checksum = hashlib.sha256(numbers).hexdigest()
    index |= {"weights": f"weights-{checksum[:16]}.safetensors", "sha256": checksum}
    index["digest"] = index_digest(index)
    try:
        with new_folder(folder), locked(folder) as alone:
            check_target(folder)  # another save may have been here
            _replace(folder, index, numbers, alone)
            if card is not None:
                text = f"{card}\nWritten beside `{index['weights']}`; rapgnn never reads it.\n".encode(
                    "utf-8", "backslashreplace"
                )
                write_atomic(folder / CARD, lambda temporary: temporary.write_bytes(text), like=folder / INDEX)
    except OSError as error:
        raise write_error(folder, error) from error


def _replace(folder: Path, index: dict[str, Any], numbers: bytes, alone: bool) -> None:
    before, named = None, folder / index["weights"]
    with contextlib.suppress(InputError):
        before = folder / _index(folder)["weights"]
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


def _is_left_over(path: Path) -> bool:
    """Whether a save that was killed left this: a temporary file, or numbers that no index names.

    So is what is gone by now: another save has renamed or removed it since the folder was listed.
    """
    from safetensors import SafetensorError, safe_open

    left = is_regular(path) and TEMPORARY.fullmatch(path.name) is not None
    if is_regular(path) and _NUMBERS.fullmatch(path.name):
        with contextlib.suppress(SafetensorError, OSError), safe_open(path, "pt") as file:
            left = file.metadata() == MARK
    return left or not os.path.lexists(path)


def load_checkpoint(
    folder: Path,
    task: str | None = None,
    make: Make | None = None,
    columns: Callable[[dict[str, Any]], nn.Module] | None = None,
) -> tuple[Any, Schema]:
    """The model in ``folder``, ready to predict.

    Args:
        task: a name from ``TASKS`` that the model must be for.
        columns: settings -> what describes the edges, for a network whose rows are edges; likewise.
    """
    folder = Path(folder)
    index, unchanged = _index(folder), 0
    while True:
        try:
            return _load(folder, index, task, make, columns)
        except MissingError:  # a save may have replaced both files meanwhile
            if unchanged == 8:
                raise
        time.sleep(0.001 * 2**unchanged)
        before, index = index, _index(folder)
        unchanged = unchanged + 1 if index == before else 0


def _load(folder: Path, index: dict[str, Any], task: str | None, make: Make | None, columns: Any) -> tuple[Any, Schema]:
    path = folder / INDEX
    try:
        schema = Schema.from_dict(index["schema"])
    except InputError as error:
        raise InputError(f"{path} is damaged: {str(error).rstrip('.')}.") from error
    if index_digest(index) != index["digest"]:
        raise InputError(f"{path} is damaged: it does not match its own digest.")
    if task is not None and schema.task != task:
        raise InputError(f"the model in {folder} is for {schema.task}, not for {task}.")
    if (make is None) == schema.of_links or (columns is None) != ("edge_columns" not in index):
        raise InputError(f"the model in {folder} is for {schema.task}: load it by load_model.")
    _check_registered(folder, index)
    state = read_numbers(folder / index["weights"], index["sha256"])

    def built() -> Any:
        if make is not None:
            return make(index["config"], index["seed"])
        model: Any = build(index, schema, len(state))
        for name, part in model.named_modules():
            if isinstance(part, TreeHead):  # as many as there are
                part.resize(len(state[f"{name}.feature"]), len(state[f"{name}.root"]))
        if columns is not None:
            model.edge_columns = columns(index["edge_columns"])
        return model

    check_tensors(folder, built, state)
    with torch.device("cpu"):
        model = built()
    model.load_state_dict(state)
    model.requires_grad_(False)
    return model.eval(), schema


def read_numbers(path: Path, checksum: str) -> dict[str, Tensor]:
    """The tensors of a file; refused where its SHA-256 is not the one noted."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        content = read_regular(path)
        if hashlib.sha256(content).hexdigest() != checksum:
            raise InputError(f"{path} is truncated or altered: its SHA-256 is not the one noted in {INDEX}.")
        state = load(content)
    except InputError:
        raise
    except FileNotFoundError as error:
        raise MissingError(f"{path.parent} is damaged: {path.name} is missing.") from error
    except (SafetensorError, OSError, ValueError, RuntimeError, KeyError, TypeError, OverflowError) as error:
        raise InputError(f"cannot read {path}: {str(error).rstrip('.')}.") from error
    for name, tensor in state.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise InputError(f"{path} is damaged: {name} holds NaN or infinite values.")
    return state


def saved_task(folder: Path) -> str:
    return Schema.from_dict(_index(folder)["schema"]).task


def _check_registered(folder: Path, index: dict[str, Any]) -> None:
    """Refuse a model whose own backbone or embedding this process does not know, by that name."""
    text = json.dumps([index["config"], index.get("members")])
    for name, table, home in (("backbone", BACKBONES, "BACKBONES"), ("embedding", EMBEDDINGS, "EMBEDDINGS")):
        for given in set(re.findall(rf'"{name}": "([^"]*)"', text)) - set(table):
            raise InputError(
                f"the model in {folder} uses the {name} {shown(given)}, which is not registered: "
                f"add it to {home} before the model is loaded."
            )


def _content(path: Path) -> dict[str, Any]:
    """What an index holds, of whatever version."""
    try:
        content = json.loads(read_regular(path, MOST_INDEX))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged: it is not JSON.") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(f"{path} is not a model of rapgnn.")
    return content


def _index(folder: Path) -> dict[str, Any]:
    path = folder / INDEX
    if not is_regular(path):
        raise InputError(f"{folder} holds no model: {INDEX} is missing.")
    index = _content(path)
    if index.get("version") != VERSION:
        given = shown(index.get("version"))
        raise InputError(f"{path} has format {given}, and this rapgnn reads {VERSION}: fit the model again.")
    kinds = {"weights": str, "sha256": str, "digest": str, "schema": dict, "config": dict, "seed": int}
    wrong = [key for key, kind in kinds.items() if type(index.get(key)) is not kind]
    if wrong or not _FILE_NAME.fullmatch(index["weights"]):
        raise InputError(f"{path} is damaged: {[*wrong, 'weights'][0]} is missing or not what it should be.")
    return index


# What kinds of models a folder may hold, and how they are built from what its index says.


IN_INDEX = ("draw_seed",)  # the index has it
VERSION = 9  # of the format


def check_tensors(folder: Path, built: Callable[[], nn.Module], state: dict[str, Tensor]) -> None:
    """Refuse tensors that are not those of such models, before memory is taken for what the settings announce."""
    try:
        with torch.device("meta"):
            expected = built().state_dict()
        expected = {name: tensor for name, tensor in expected.items() if not name.endswith(IN_INDEX)}
        for name in [*expected, *state]:
            if name not in state:
                raise InputError(f"its numbers lack {name}")
            if name not in expected:
                raise InputError(f"its numbers hold {shown(name)}, which the model has not")
            if state[name].shape != expected[name].shape:
                shape, wanted = list(state[name].shape), list(expected[name].shape)
                raise InputError(f"{name} has the shape {shape}, not {wanted}")
            if state[name].dtype != expected[name].dtype:
                raise InputError(f"{name} holds {state[name].dtype}, not {expected[name].dtype}")
    except (TypeError, RuntimeError, ValueError, KeyError, OverflowError, AttributeError) as error:
        raise InputError(f"{folder} is damaged: {str(error).splitlines()[0].rstrip('.:')}.") from error


def build(index: dict[str, Any], schema: Schema, tensors: int) -> RAPGNN | Average:
    """What an index describes, without its numbers: one network, or an average of several.

    Args:
        tensors: how many there are, each module having one at least.
    """
    classes, there = index.get("answers"), range(schema.out_channels)
    if classes is not None and not (len(classes) > 1 and sorted({*there} & {*classes}) == classes):
        raise InputError("its answers are no classes of its")
    outputs = schema.out_channels if classes is None else len(classes)
    channels: dict[str, Any] = {"out_channels": outputs, "edge_channels": schema.edge_channels}
    members, built = index.get("members", [index]), []
    if len(members) > tensors:
        raise InputError("its numbers are those of fewer members")
    for member in members:
        config, how = Config(**member["config"]), channels | {"seed": member["seed"]}
        if config.of_layers:
            built.append(RAPGNN(schema.in_channels, **how, config=config))
            continue
        tensors -= config.num_layers if config.coefficients == "layers" else 0
        if tensors < 0:
            raise InputError("its numbers are those of fewer layers")
        more = {"known": tuple(member.get("known", (0, 0))), "nodes": member.get("nodes", 0), "types": schema.types}
        built.append(HopNetwork(schema.in_channels, **how, **more, config=config))
    model: Any = built[0]
    if "members" in index:
        uses, weights = ([member[key] for member in members] for key in ("use", "weight"))
        model = Average(built, uses, weights, classes, schema.out_channels)
    model.fit_rows = FitRows(*index["rows"]) if "rows" in index else None
    return model


def described(model: Average) -> list[dict[str, Any]]:
    """What an index says of the members, from which ``build`` makes them."""
    members = []
    for member, use, weight in zip(model.members, model.uses, model.weights, strict=True):
        one: Any = member
        members.append({"config": one.config.to_dict(), "seed": int(one.seed), "use": use, "weight": weight})
        if isinstance(one, HopNetwork) and one.known is not None:
            members[-1]["known"] = list(one.known.y.shape)
        if isinstance(one, HopNetwork) and one.nodes is not None:
            members[-1]["nodes"] = len(one.nodes.keys)
    return members
