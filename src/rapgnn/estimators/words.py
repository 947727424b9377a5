"""What a search chose, in words."""

from collections import Counter
from typing import Any


def chosen_words(model: Any) -> str:
    """One network's settings, or those of an average's members."""
    members = getattr(model, "members", None)
    if members is None:
        return _network(model.config) + f", {model.config.embedding} embedding, {model.config.head} head"
    shown = [words for words, use in listed(model) if use != "elsewhere"]
    if len(shown) == 1:
        return shown[0]
    counts = Counter(shown)  # members with the same settings learned from different teachers
    said = [words if times == 1 else f"{times} x {words}" for words, times in counts.items()]
    return f"the average of {len(shown)}, " + "; ".join(said)


def listed(average: Any) -> list[tuple[str, str]]:
    """(settings, use) of every member of an average; draws that share a member's weight are one."""
    found: dict[Any, tuple[Any, str, int]] = {}
    for at, (member, use, weight) in enumerate(zip(average.members, average.uses, average.weights, strict=True)):
        key = at if weight == 1 else (member.config, use)
        draws = found[key][2] if key in found else 0
        found[key] = member.config, use, draws + 1
    return [
        (member_words(config) + (f", {draws} draws" if draws > 1 else ""), use) for config, use, draws in found.values()
    ]


def member_words(config: Any) -> str:
    """One member's settings."""
    if not hasattr(config, "lift"):
        words = ["RAP " + _network(getattr(config, "network", config))]
    elif config.colours:
        words = [f"colours after {_count(config.num_layers, 'step')}"]
    else:
        words = [f"{config.backbone}, {_count(config.num_layers, 'hop')}"]
        words += [f"{config.lift or config.width} random features"] if config.lift or config.width else []
        words += ["known labels"] if config.known else []
        words += ["trained layer"] if config.hidden else []
        words += ["on another's predictions"] if config.first is not None else []
    if getattr(config, "landmarks", 0):
        words.append(f"{config.kernel} kernel")
    treatment = getattr(config, "features", "none")
    if treatment != "none" and not getattr(config, "identity", 0):
        words.append(f"{treatment} features")
    return ", ".join(words)


def _network(config: Any) -> str:
    return f"{config.backbone}, {_count(config.num_layers, 'layer')}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
