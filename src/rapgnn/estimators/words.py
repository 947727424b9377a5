"""What a search chose, in words."""

from collections import Counter
from typing import Any


def chosen_words(model: Any) -> str:
    """One network's settings, or those of an average's members."""
    members = getattr(model, "members", None)
    if members is None:
        return _network(model.config) + f", {model.config.embedding} embedding, {model.config.head} head"
    shown = [member_words(member.config) for member, use in zip(members, model.uses, strict=True) if use != "elsewhere"]
    if len(shown) == 1:
        return shown[0]
    counts = Counter(shown)  # members with the same settings learned from different teachers
    said = [words if times == 1 else f"{times} x {words}" for words, times in counts.items()]
    return f"the average of {len(shown)}, " + "; ".join(said)


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
