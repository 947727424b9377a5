"""A graph that brings its operator along, what fits into memory, and what a trained network takes to predict."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from torch import Tensor

from rapgnn.device import free_memory as free_device_memory
from rapgnn.experiments.bench.timing import median_ms
from rapgnn.experiments.run import Record
from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.models.config import Config
from rapgnn.models.prepared import PreparedGraph
from rapgnn.models.rapgnn import RAPGNN
from rapgnn.training.fit import Fitted

FITS = 0.8  # of the free memory that something may need


@dataclass(frozen=True)
class ReadyGraph(Graph):
    """A graph whose operator is built, so that what is measured is training and not the building."""

    built: GraphOperator | None = None

    def operator(self, backbone: str, self_loops: bool = False, eps: float = 0.0) -> GraphOperator:
        """The one that was built."""
        assert self.built is not None
        return self.built


def ready(graph: Graph, backbone: str = "gcn") -> ReadyGraph:
    """The graph with its operator built."""
    parts = {f.name: getattr(graph, f.name) for f in fields(Graph)}
    return ReadyGraph(**parts, built=graph.operator(backbone))


def trained_bytes(graph: Graph, config: Config) -> int:
    """About what end-to-end training keeps for its gradients."""
    return 4 * graph.num_nodes * config.hidden_channels * (5 * config.num_layers + 6)


def message_bytes(graph: Graph, channels: int) -> int:
    """About what a layer of PyG takes that makes a message of every edge."""
    return 2 * 4 * graph.edge_index.shape[1] * channels


def fits(needed: float, device: torch.device | str) -> bool:
    """Whether so many bytes can be taken without the system ending a process."""
    return needed <= FITS * free_memory(device)


def free_memory(device: torch.device | str) -> float:
    """Bytes that can still be taken; infinite where the system does not tell."""
    if torch.device(device).type == "cuda":
        return float(free_device_memory(device))
    info = Path("/proc/meminfo")
    for line in info.read_text().splitlines() if info.exists() else []:
        if line.startswith("MemAvailable:"):
            return 1024.0 * int(line.split()[1])
    return math.inf


def inference_times(fitted: Fitted, graph: Graph, repeats: int) -> Record:
    """Milliseconds of the test rows' scores with everything prepared, and of all rows' by a walk over the graph."""
    rows = torch.arange(graph.num_rows, device=graph.y.device)
    test = graph.test if len(graph.test) else rows
    device = graph.y.device
    prepared = _prepared_scores(fitted, graph, test)
    if prepared is None and graph.ptr is not None:  # the test graphs alone can be walked over
        prepared = lambda: fitted.predict(test).scores  # noqa: E731
    every = median_ms(lambda: fitted.predict(rows), device, repeats)
    return {
        "infer_ms": every if prepared is None else median_ms(prepared, device, max(repeats, 10)),
        "infer_all_ms": every,
        "infer_rows": graph.num_rows if prepared is None else len(test),
    }


def _prepared_scores(fitted: Fitted, graph: Graph, rows: Tensor) -> Callable[[], Tensor] | None:
    """Scores of these rows from what can be kept of the graph; None where nothing can, and every pass is a new one."""
    model = fitted.model
    if not isinstance(model, RAPGNN):
        return None
    if fitted.engine == "none":
        return lambda: fitted.predict(rows).scores
    with torch.no_grad():
        prepared = PreparedGraph(model.embed(graph.x, graph.operator(model.config.backbone)), rows)
        if prepared.embedded.constant:
            kept = prepared.expectation
            return lambda: model.output(model.head(kept))
        if prepared.engine == "polynomial":
            hops, scorer = prepared.hops, model.scorer().to(rows.device)
            return lambda: scorer(hops)
    return None
