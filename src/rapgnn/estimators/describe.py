"""Candidates in words: the one place where the fields of a settings record become a sentence."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from rapgnn.models.config import Config

JOINED = {"last": "", "cat": " side by side", "ppr": " by personalised PageRank"}
SCALED = {"none": "", "length": "length-normalised ", "tfidf": "tf-idf ", "standard": "standardised "}


def describe(settings: Mapping[str, Any]) -> str:
    """The settings of one network, such as ``gcn, 8 hops by personalised PageRank, 256 components of tf-idf features,
    ridge``.

    Args:
        settings: of a random network, as its ``to_dict`` gives them, or of a RAP network, whose usual ones may be left
            out.
    """
    rap = not _is_random_network(settings)
    settings = Config().to_dict() | dict(settings) if rap else settings
    depth = settings["num_layers"]
    scaled = SCALED[settings.get("features", "none")] + "features"
    if components := settings.get("sketch"):
        scaled = f"{components} components of {scaled}"
    if settings.get("colours"):
        return f"colours after {counted(depth, 'step')}, {_head(settings)}"
    if rap:
        words = [f"RAP {settings['backbone']}, {counted(depth, 'layer')}"]
        words += [] if settings["embedding"] == "identity" else [f"{settings['embedding']} embedding"]
    elif width := settings["width"]:
        words = [f"{settings['backbone']}, {counted(depth, 'random layer')} of {counted(width, 'channel')}"]
    else:
        words = [f"{settings['backbone']}, {counted(depth, 'hop')}{JOINED[settings['jumping']] if depth > 1 else ''}"]
    if settings.get("identity"):
        words.append("random columns")
    elif scaled != "features":
        words.append(scaled)
    words += [f"{settings['lift']} random features"] if settings.get("lift") else []
    words += ["known labels"] if settings.get("known") else []
    words += ["on another's predictions"] if settings.get("first") is not None else []
    return ", ".join([*words, _head(settings)])


def family(settings: Mapping[str, Any]) -> str:
    """The kind of network that settings describe, in a word or two."""
    if not _is_random_network(settings):
        settings = Config().to_dict() | dict(settings)
        return f"RAP, {settings['embedding']}, {settings['head']}"
    names = {
        "taught": "self-training",
        "landmarks": "kernel",
        "first": "on another's predictions",
        "hidden": "trained layer",
        "lift": "random features",
        "width": "random layers",
        "colours": "colours",
    }
    return next((name for field, name in names.items() if settings.get(field)), "linear filter")


def _is_random_network(settings: Mapping[str, Any]) -> bool:
    return "landmarks" in settings


def _head(settings: Mapping[str, Any]) -> str:
    if not _is_random_network(settings):
        return settings["head"]
    kernel = f"{settings['kernel']} kernel, " if settings["landmarks"] else ""
    return "trained layer" if settings["hidden"] else kernel + "ridge"


def describe_model(model: Any) -> str:
    """One network's settings, or those of an average's members that count on the graph of the training."""
    if getattr(model, "members", None) is None:
        return describe(model.config.to_dict())
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
        members[key] = describe(member.config.to_dict()), use, draws + 1
    return [(words + (f", {draws} draws" if draws > 1 else ""), use) for words, use, draws in members.values()]


def counted(number: int, what: str) -> str:
    """A number with its noun."""
    return f"{number} {what}{'' if number == 1 else 's'}"
