"""What a model takes and gives, in a form that is stored with it."""

from dataclasses import dataclass
from typing import Any

from rapgnn.errors import InputError, shown
from rapgnn.graph.graph import Graph
from rapgnn.graph.relations import checked_types
from rapgnn.graph.scores import metrics_for
from rapgnn.graph.table import Encoding
from rapgnn.graph.tasks import TASKS, Objective

_MAY_LACK = {"scoring", "types", "positive", "threshold", "relation"}  # of a stored schema


@dataclass(frozen=True)
class Schema:
    """What a model takes and gives; two graphs with the same schema suit the same model.

    Args:
        classes: what the class numbers, or label columns, are called.
        encoding: how the features are made of what a user gives.
        scoring: the metric that the user chose by, where it is not the task's own.
        positive: of two classes the one that is looked for, where the user has named it.
        threshold: from which probability it is the answer, or the metric or costs that decide it.
        types: of a graph with types, what they are (``Types.described``).
        relation: of a graph with types, the one whose links are predicted.
    """

    task: str
    in_channels: int
    edge_channels: int
    out_channels: int
    classes: tuple[Any, ...] | None = None
    encoding: Encoding | None = None
    scoring: str | None = None
    types: dict[str, Any] | None = None
    positive: Any = None
    threshold: Any = None
    relation: tuple[str, ...] | None = None

    @classmethod
    def of(cls, graph: Graph) -> "Schema":
        sizes = graph.num_features, graph.num_edge_features, graph.num_outputs
        types = None if graph.typed is None else graph.typed.described()
        return cls(graph.task, *sizes, classes=graph.classes, encoding=graph.encoding, types=types)

    @property
    def objective(self) -> Objective:
        return TASKS[self.task]

    @property
    def of_links(self) -> bool:
        """Whether it is for links, which have a model of their own kind."""
        return self.task.startswith("link-")

    def to_dict(self) -> dict[str, Any]:
        classes = None if self.classes is None else list(self.classes)
        said = vars(self) | {"classes": classes, "encoding": self.encoding and self.encoding.to_dict()}
        return {key: value for key, value in said.items() if value is not None or key not in _MAY_LACK}

    @classmethod
    def from_dict(cls, given: Any) -> "Schema":
        """From what ``to_dict`` gave; anything else is refused."""
        names = {"task": str, "in_channels": int, "edge_channels": int, "out_channels": int}
        if not isinstance(given, dict) or set(given) - _MAY_LACK != {*names, "classes", "encoding"}:
            raise InputError("the schema is not what it should be")
        if any(not isinstance(given[key], kind) or isinstance(given[key], bool) for key, kind in names.items()):
            raise InputError("the schema is not what it should be")
        if given["in_channels"] < 1 or given["out_channels"] < 1 or given["edge_channels"] < 0:
            raise InputError("the schema has a width below 1")
        classes = given["classes"]
        if classes is not None and (not _are_classes(classes) or len(classes) != given["out_channels"]):
            raise InputError("the classes are not what they should be")
        encoding = None if given["encoding"] is None else Encoding.from_dict(given["encoding"])
        if given["task"] not in TASKS or (encoding is not None and encoding.width not in (None, given["in_channels"])):
            raise InputError("the schema contradicts itself")
        scoring = given.get("scoring")
        if "scoring" in given and not (isinstance(scoring, str) and scoring in metrics_for(given["task"])):
            raise InputError("the metric is none of this task")
        positive, threshold = given.get("positive"), given.get("threshold")
        if positive is not None and positive not in (classes or range(given["out_channels"])):
            raise InputError("the positive class is none of the classes")
        named = None if classes is None else tuple(classes)
        types = None if given.get("types") is None else checked_types(given["types"])
        sizes = {key: given[key] for key in names}
        goal = {"scoring": scoring, "positive": positive, "threshold": threshold}
        if (relation := given.get("relation")) is not None:
            if types is None or list(relation) not in types["relations"]:
                raise InputError("the relation is none of the types'")
            goal["relation"] = tuple(relation)
        return cls(**sizes, classes=named, encoding=encoding, types=types, **goal)

    def check(self, graph: Graph) -> None:
        other = Schema.of(graph)
        if other.task != self.task:
            raise InputError(f"the model is for {self.task}, but the data are for {other.task}.")
        if (other.types is None) != (self.types is None):
            kind = "without types of nodes" if self.types is None else f"with types, {self.types['target']} among them"
            raise InputError(f"the model was trained on a graph {kind}, and this one is not such a graph.")
        pairs = (("node features", "in_channels"), ("edge features", "edge_channels"))
        for what, name in pairs:
            if getattr(other, name) != getattr(self, name):
                raise InputError(
                    f"the model was trained with {getattr(self, name)} {what}, the data have {getattr(other, name)}."
                )
        if other.out_channels > self.out_channels:
            new = "" if graph.classes is None else f", {shown(graph.classes[self.out_channels])} among them"
            raise InputError(f"the model knows {self.out_channels} classes, the data have {other.out_channels}{new}.")


def _are_classes(classes: Any) -> bool:
    """Whether these are different names of one kind."""
    if not isinstance(classes, list) or not all(isinstance(c, str | int) for c in classes):
        return False
    return len(set(map(type, classes))) < 2 and len(set(classes)) == len(classes)
