"""Relations between types of nodes, and what a graph has beside the rows of its target type."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rapgnn.errors import InputError, shown
from rapgnn.graph.table import Encoding
from rapgnn.graph.validate import as_array
from rapgnn.sparse import Features

ALWAYS = -np.inf  # the time of a fact that was always there
THEN, ALSO = " > ", " + "  # between the relations of a path, and between paths


@dataclass(frozen=True)
class Relation:
    """Edges from nodes of one type to those of another, all of one meaning.

    Args:
        source, name, target: two types, and what the relation is called.
        edge_index: ``[2, m]``, node numbers within the types.
        weight: a number per edge.
        time: since when each edge is there, in seconds; NaN: as long as its ends are.
    """

    source: str
    name: str
    target: str
    edge_index: Any
    weight: Any = None
    time: Any = None

    @property
    def key(self) -> str:
        """The relation as paths name it."""
        return f"{self.source} {self.name} {self.target}"

    @property
    def reverse(self) -> "Relation":
        """The same edges the other way."""
        edges = as_array(self.edge_index, "edge_index")[::-1].copy()
        return replace(self, source=self.target, target=self.source, name=f"rev_{self.name}", edge_index=edges)


@dataclass(frozen=True)
class Types:
    """What a graph has beside the rows of its target type.

    Args:
        target: the type whose nodes are the rows.
        counts: how many nodes each type has.
        features: ``[n, c]`` of those types that have any.
        relations: checked, every one with its reverse; ``time`` is ``ALWAYS`` or later, or None.
        encodings: how features were made of tables.
        times: since when nodes are there, of the types that say it.
        clock: the time of every row, as of which it is predicted; None: all rows see all facts.
        cuts: times at which snapshots are taken; beyond the last, one in every ``step`` seconds.
        made: what is made of these once and kept.
    """

    target: str
    counts: dict[str, int]
    features: dict[str, Features]
    relations: tuple[Relation, ...]
    encodings: dict[str, Encoding | None]
    times: dict[str, np.ndarray] = field(default_factory=dict)
    clock: np.ndarray | None = None
    cuts: tuple[float, ...] = ()
    step: float = 0.0
    made: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def widths(self) -> dict[str, int]:
        """Columns of the features of each type; 0: it has none."""
        return {name: self.features[name].shape[1] if name in self.features else 0 for name in self.counts}

    def relation(self, key: str) -> Relation:
        """The relation that a path names."""
        found = next((one for one in self.relations if one.key == key), None)
        if found is None:
            raise InputError(f"the data have no relation {shown(key)}: it is one of {listed(self.relations)}.")
        return found

    def described(self) -> dict[str, Any]:
        """What a model keeps of it, as JSON holds it."""
        encodings = {name: None if one is None else one.to_dict() for name, one in self.encodings.items()}
        relations = [[one.source, one.name, one.target] for one in self.relations]
        kept = {"target": self.target, "widths": self.widths, "encodings": encodings, "relations": relations}
        return kept | {"cuts": list(self.cuts), "step": self.step}


def listed(relations: Sequence[Relation]) -> str:
    """Relations for a sentence."""
    return ", ".join(one.key for one in relations)


def checked_types(given: Any) -> dict[str, Any]:
    """What ``Types.described`` gave; anything else is refused."""
    try:
        widths, encodings = given["widths"], {name: one for name, one in given["encodings"].items() if one is not None}
        fine = set(given) == {"target", "widths", "encodings", "relations", "cuts", "step"}
        fine = fine and given["target"] in widths and set(given["encodings"]) == set(widths)
        fine = fine and all(type(width) is int and width >= 0 for width in widths.values())
        fine = fine and all(Encoding.from_dict(one).width in (None, widths[name]) for name, one in encodings.items())
        fine = fine and all(len(one) == 3 and {one[0], one[2]} <= set(widths) for one in given["relations"])
        fine = fine and bool(np.isfinite([*given["cuts"], given["step"]]).all())
    except (TypeError, KeyError, ValueError, AttributeError, IndexError):
        fine = False
    if not fine:
        raise InputError("the types of nodes are not what they should be")
    return given
