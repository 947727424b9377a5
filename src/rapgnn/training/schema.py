"""What a model takes and gives, in a form that is stored with it."""

from dataclasses import dataclass
from typing import Any

from rapgnn.errors import InputError, shown
from rapgnn.graph.graph import Graph
from rapgnn.graph.table import Encoding
from rapgnn.graph.tasks import TASKS, Objective

_MAY_LACK = {"scoring", "types", "positive", "threshold"}  # of a stored schema


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
    def from_dict(cls, given: dict[str, Any]) -> "Schema":
        """From what ``to_dict`` gave."""
        classes = None if given["classes"] is None else tuple(given["classes"])
        encoding = None if given["encoding"] is None else Encoding.from_dict(given["encoding"])
        return cls(**(given | {"classes": classes, "encoding": encoding}))

    def check(self, graph: Graph) -> None:
        """Refuse a graph this model was not made for."""
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
