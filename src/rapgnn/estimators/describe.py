"""Candidates in words: the one place where the fields of a settings record become a sentence."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from rapgnn.network.config import SETTINGS, Config

JOINED = {"last": "", "cat": " side by side", "ppr": " by personalised PageRank"}
SCALED = {"none": "", "length": "length-normalised ", "tfidf": "tf-idf ", "standard": "standardised "}


def describe(settings: Mapping[str, Any]) -> str:
    """The settings of one network, such as ``gcn, 8 hops by personalised PageRank, 256 components of tf-idf features,
    ridge``; what is left out is as usual."""
    c = _config(settings)
    depth = c.num_layers
    if c.coefficients == "colours":
        words = [f"colours after {counted(depth, 'step')}"]
    elif c.coefficients == "random":
        words = [f"RAP {c.backbone}, {counted(depth, 'layer')}"]
        words += [] if c.embedding == "identity" else [f"{c.embedding} embedding"]
    elif c.coefficients == "layers":
        words = [f"{c.backbone}, {counted(depth, 'random layer')} of {counted(c.width, 'channel')}"]
    else:
        words = [f"{c.backbone}, {counted(depth, 'hop')}{JOINED[c.jumping] if depth > 1 else ''}"]
    scaled = SCALED.get(c.scaling, f"{c.scaling} ") + "features"
    if c.anchors:
        words.append(f"nearness to {counted(c.anchors, 'row')}")
    elif c.node_columns:
        words.append("places of nodes" if c.relations else "random columns")
    elif c.components:
        words.append(f"{c.components} components of {scaled}")
    elif scaled != "features":
        words.append(scaled)
    words += [f"{c.units} random features"] if c.units else []
    words += ["labels of neighbours"] if c.known_labels else []
    words += ["on another's predictions"] if c.previous is not None else []
    words += [f"{c.kernel} kernel"] if c.landmarks else []
    return ", ".join([*words, c.head])


def family(settings: Mapping[str, Any]) -> str:
    """The kind of network that settings describe, in a word or two."""
    c = _config(settings)
    if c.coefficients == "random":
        return f"RAP, {c.embedding}, {c.head}"
    kinds = {
        "self-training": settings.get("self_training"),
        "kernel": c.landmarks,
        "on another's predictions": c.previous is not None,
        "trained head": c.head != "ridge",
        "random features": c.units,
        "random layers": c.coefficients == "layers",
        "colours": c.coefficients == "colours",
    }
    return next((kind for kind, holds in kinds.items() if holds), "linear filter")


def _config(settings: Mapping[str, Any]) -> Config:
    return Config(**{name: value for name, value in settings.items() if name in SETTINGS})


def describe_model(model: Any) -> str:
    """One network's settings, or those of an average's members that count on the graph of the training."""
    if getattr(model, "members", None) is None:
        return describe(model.config.settings())
    here = [words for words, use in describe_members(model) if use != "elsewhere"]
    if len(here) == 1:
        return here[0]
    counts = Counter(here)  # members of self-training may have the same settings
    members = [words if times == 1 else f"{times} x {words}" for words, times in counts.items()]
    return f"the average of {len(here)}, " + "; ".join(members)


def describe_members(average: Any) -> list[tuple[str, str]]:
    """(settings, use) of every member of an average; draws that share a member's weight are one."""
    members: dict[Any, tuple[str, str, int]] = {}
    for at, (member, use, weight) in enumerate(zip(average.members, average.uses, average.weights, strict=True)):
        key = at if weight == 1 else (member.config, use)
        draws = members[key][2] if key in members else 0
        members[key] = describe(member.config.settings()), use, draws + 1
    return [(words + (f", {draws} draws" if draws > 1 else ""), use) for words, use, draws in members.values()]


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
