"""What kinds of models a folder may hold, and how they are built from what its index says."""

from pathlib import Path
from typing import Any

import torch

from rapgnn.errors import InputError
from rapgnn.models.average import USES, Average, is_weight
from rapgnn.models.config import Config
from rapgnn.models.net_config import NetConfig
from rapgnn.models.random_net import RandomNet
from rapgnn.models.rapgnn import RAPGNN
from rapgnn.models.treated import TreatedConfig, TreatedRAP
from rapgnn.training.numbers import Header, Kinds, check_kinds
from rapgnn.training.schema import Schema

IN_INDEX = ("draw_seed",)  # the index has it, and earlier versions know no such tensor
KINDS: dict[str, tuple[Any, Any]] = {
    "rap": (RAPGNN, Config),
    "treated": (TreatedRAP, TreatedConfig.from_dict),
    "random": (RandomNet, NetConfig),
}
KIND_OF = {model: kind for kind, (model, _) in KINDS.items()}
VERSION = 5  # of the format, the newest one
ONE_MODEL, MEMBERS_ALIKE = 2, 4  # versions that say all of one model, of members that count the same
MOST_MEMBERS = 64
USUAL: dict[str, Any] = {"use": USES[0], "weight": 1.0}  # how members count where an index does not say


def version_of(model: RAPGNN | Average) -> int:
    """The earliest version of the format that says all of a model."""
    if isinstance(model, RAPGNN):
        return ONE_MODEL
    return MEMBERS_ALIKE if all(weight == USUAL["weight"] for weight in model.weights) else VERSION


def members_of(path: Path, index: dict[str, Any]) -> list[dict[str, Any]]:
    """Kind, settings and seed of every model in a folder, by its index: one, or the members of an average."""
    if "members" not in index:
        return [{"kind": KIND_OF[RAPGNN], "config": index["config"], "seed": index["seed"]}]
    members = index["members"]
    wanted = {"kind": str, "config": dict, "seed": int}
    fine = isinstance(members, list) and 0 < len(members) <= MOST_MEMBERS
    fine = fine and all(
        isinstance(m, dict)
        and all(isinstance(m.get(key), kind) and not isinstance(m.get(key), bool) for key, kind in wanted.items())
        and m["kind"] in KINDS
        and m.get("use", USUAL["use"]) in USES
        and is_weight(m.get("weight", USUAL["weight"]))
        and _is_shape(m.get("known", [0, 0]))
        for m in members
    )
    if not fine:
        raise InputError(f"{path} is damaged: members is not what it should be.")
    return members


def check_tensors(folder: Path, members: list[dict[str, Any]], average: bool, schema: Schema, header: Header) -> None:
    """Refuse numbers that are not those of such models."""
    try:
        check_kinds(header, _kinds(members, average, schema))
    except (TypeError, RuntimeError, ValueError, KeyError, OverflowError) as error:
        raise InputError(f"{folder} is damaged: {str(error).splitlines()[0].rstrip('.:')}.") from error


def build(members: list[dict[str, Any]], average: bool, schema: Schema) -> RAPGNN | Average:
    channels: dict[str, Any] = {"out_channels": schema.out_channels, "edge_channels": schema.edge_channels}
    built = []
    for member in members:
        model, settings = KINDS[member["kind"]]
        config = settings(**member["config"])
        more: dict[str, Any] = {"known": tuple(member["known"])} if "known" in member and model is RandomNet else {}
        built.append(model(schema.in_channels, **channels, **more, seed=member["seed"], config=config))
    if not average:
        return built[0]
    return Average(built, *([member.get(key, usual) for member in members] for key, usual in USUAL.items()))


def described(model: Average) -> list[dict[str, Any]]:
    """What an index says of the members, from which ``build`` makes them."""
    found = []
    for member, use, weight in zip(model.members, model.uses, model.weights, strict=True):
        one: Any = member
        said = {"kind": KIND_OF[type(one)], "config": one.config.to_dict(), "seed": one.seed}
        if isinstance(one, RandomNet) and one.known is not None:
            said["known"] = list(one.known.y.shape)
        counts = {"use": use, "weight": weight}
        found.append(said | {key: value for key, value in counts.items() if value != USUAL[key]})
    return found


def _is_shape(given: Any) -> bool:
    """Whether these are a number of rows and of columns."""
    if not isinstance(given, list) or len(given) != 2:
        return False
    return all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 1 << 40 for n in given)


def _kinds(members: list[dict[str, Any]], average: bool, schema: Schema) -> Kinds:
    """The tensors that such models have, without memory for them."""
    with torch.device("meta"):
        state = build(members, average, schema).state_dict()
    return {name: (tuple(t.shape), t.dtype) for name, t in state.items() if not name.endswith(IN_INDEX)}
