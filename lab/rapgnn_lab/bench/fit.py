"""What a whole default fit costs, by the size and kind of the graph: seconds and peak memory by stage, beside one run
of a plain GCN, boosted trees on the means of neighbours, and the least that hops must move and a solve must multiply.

Every graph has a process of its own (``python -m`` of this module). A thread looks every few milliseconds where the fit
is, and how much memory the process holds: nothing of the library is changed for it, and nothing is slowed down.
"""

import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from types import FrameType
from typing import Any

import numpy as np
import torch

from rapgnn import Graph, RAPNodeClassifier, make_graph
from rapgnn.compare import Record, warm_up
from rapgnn.graph.rows import split_per_class
from rapgnn.memory import anonymous_bytes
from rapgnn.sparse import SparseMatrix, dense
from rapgnn_lab.bench.generated import PowerLaw
from rapgnn_lab.bench.suite.compare import PLAIN, as_given, time_run
from rapgnn_lab.bench.suite.graphs import documents
from rapgnn_lab.bench.timing import copy_bandwidth, fits, log_slopes, seconds_of
from rapgnn_lab.store import Row, answer, in_child, machine, packaged

KINDS = {"numbers": "dense numbers", "words": "sparse 0/1 words", "dense-words": "the same words as a dense table"}
WIDE = 512  # columns from which features are words
DEGREE, CLASSES = 10, 5
MOST_BYTES = 1 << 32  # of a dense table of features
LOOK_SECONDS = 0.004
TREE_COLUMNS = 128  # columns up to which trees are grown
QUANTITIES = ("fit_seconds", "peak_memory_mb", "floor_seconds")  # whose growth is told
STAGES = [(s, *at.partition(":")[::2]) for s, places in packaged("bench/stages.toml").items() for at in places]
"""(stage, module of rapgnn, function; any where it is empty): what is innermost counts. A candidate's own kind is that
of its configuration; before the first one and outside of all it is reading."""
KINDS_OF_CANDIDATES = ("random coefficients", "trained heads", "kernels", "linear filters")


@dataclass(frozen=True)
class Cell:
    """A graph of the grid; ``labels`` are training rows: below 1 a share of all, else so many of every class."""

    nodes: int
    columns: int
    kind: str
    labels: float

    def generate(self) -> Graph:
        """Classes by words, or by numbers on a graph whose edges say nothing; what it costs is the same."""
        if self.kind == "numbers":
            size = PowerLaw(self.nodes, DEGREE * self.nodes, self.columns, CLASSES, train=1, val=0, test=0)
            graph = size.generate()
        else:
            graph = documents(self.nodes, self.columns, CLASSES, counts=False)
        x = graph.x
        train = self.labels if self.labels < 1 else int(self.labels)
        rows = split_per_class(graph.y.numpy(), train)
        return make_graph(x, graph.edge_index, graph.y, *rows, name="cell", sparse=isinstance(x, SparseMatrix))

    def given(self, graph: Graph) -> tuple[Any, Record, Record]:
        """What a user hands over: the graph, or a dense table of words and its edges; for a fit labels too."""
        whole = self.kind != "dense-words"
        return as_given(graph, whole, None if whole else dense(graph.x).numpy())


def grid(nodes: Sequence[int], columns: Sequence[int], labels: Sequence[float], kinds: Sequence[str]) -> list[Cell]:
    """Every combination that there is: few columns are numbers, many are words, and a dense table has a limit."""
    cells = [Cell(n, c, kind, share) for n, c, share, kind in product(nodes, columns, labels, kinds)]
    fit = [cell for cell in cells if (cell.kind == "numbers") == (cell.columns < WIDE)]
    return [cell for cell in fit if cell.kind == "words" or 4 * cell.nodes * cell.columns <= MOST_BYTES]


def plan(cells: Sequence[Cell], seeds: int) -> list[Row]:
    rows = []
    for cell in cells:
        request = asdict(cell) | {"seeds": list(range(seeds))}
        common = {"dataset": "generated", "method": "RAPNodeClassifier()", "features": cell.columns} | machine("cpu")
        rows.append(Row(common | request, partial(in_child, "rapgnn_lab.bench.fit", request)))
    return rows


def measure(request: Record) -> Record:
    """The fits of one graph, its rivals and its floor."""
    cell = Cell(**{name: request[name] for name in ("nodes", "columns", "kind", "labels")})
    graph = cell.generate()
    data, edges, labels = cell.given(graph)
    warm_up(["rap"], "cpu")
    watches, predictions, values, candidates = [], [], [], 0
    for seed in request["seeds"]:
        model = RAPNodeClassifier(seed=seed)
        with Watch() as watch:
            model.fit(data, **edges, **labels)
        watches.append(watch)
        predictions.append(seconds_of(partial(model.predict, data, **edges), "cpu"))
        values.append(float(model.score(graph, split="test")))
        candidates = len(model.trials_)
    median = sorted(watches, key=lambda watch: watch.wall)[len(watches) // 2]
    sizes = {"edges": graph.edge_index.shape[1], "labelled": len(graph.train), "feature_mb": graph.x.nbytes / 2**20}
    beside = {"gcn_seconds": _gcn_seconds(graph), "trees_seconds": None} | floor(graph)
    if cell.columns <= TREE_COLUMNS and fits(12 * graph.num_nodes * cell.columns, "cpu"):
        beside |= _trees(graph)
    ratios = {name: median.wall / beside[f"{name}_seconds"] for name in ("gcn", "trees", "floor")
              if beside[f"{name}_seconds"]}  # fmt: skip
    return sizes | {
        "fit_seconds": median.wall,
        "all_seconds": [watch.wall for watch in watches],
        "predict_seconds": statistics.median(predictions),
        "mean": statistics.fmean(values),
        "values": values,
        "candidates": candidates,
        "peak_memory_mb": max(watch.peak for watch in watches),
        "stages": median.stages(),
        **beside,
        **{f"of_{name}": ratio for name, ratio in ratios.items()},
    }


class Watch:
    """``with Watch() as watch:`` then what the main thread was at: seconds, and the most memory above the first."""

    def __init__(self) -> None:
        self.wall, self.peak = 0.0, 0.0
        self._seconds: Counter[str] = Counter()
        self._peaks: dict[str, float] = {}
        self._end, self._main = threading.Event(), threading.get_ident()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "Watch":
        self._before, self._start = anonymous_bytes() or 0, time.perf_counter()
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.wall = time.perf_counter() - self._start
        self._end.set()
        self._thread.join()
        self.peak = max(self._peaks.values(), default=0.0)

    def _look(self) -> None:
        last = self._start
        while not self._end.wait(LOOK_SECONDS):
            frame = sys._current_frames().get(self._main)
            stage, now = stage_of(frame), time.perf_counter()
            self._seconds[stage] += now - last  # type: ignore[reportArgumentType] - seconds are no whole numbers
            held = ((anonymous_bytes() or 0) - self._before) / 2**20
            self._peaks[stage], last = max(held, self._peaks.get(stage, 0.0)), now

    def stages(self) -> Record:
        """Stage -> seconds and peak in MB, the longest first."""
        return {name: {"seconds": s, "peak_mb": self._peaks[name]} for name, s in self._seconds.most_common()}


def stage_of(frame: FrameType | None) -> str:
    """What code is at: the innermost of ``STAGES``, else the kind of the candidate."""
    while frame is not None:
        module, function = frame.f_globals.get("__name__", ""), frame.f_code.co_name
        for stage, name, wanted in STAGES:
            if module == f"rapgnn.{name}" and wanted in ("", function):
                return stage
        if module == "rapgnn.search.search" and function == "attempt":
            config = frame.f_locals["config"]
            kinds = (config.coefficients == "random", config.head != "ridge", config.kernel != "none", True)
            return KINDS_OF_CANDIDATES[kinds.index(True)]
        frame = frame.f_back
    return "reading"


def floor(graph: Graph) -> Record:
    """The least: bytes of one hop (matrix, features in and out), flops of one ridge solve, and seconds of both here."""
    rows, columns = len(graph.train), graph.num_features
    moved = graph.operator("gcn").matrix.nbytes + 2 * graph.x.nbytes
    small = min(rows, columns)
    flops = rows * columns * small + small**3 / 3
    side = torch.rand(1024, 1024)
    rate = 2 * 1024**3 / min(seconds_of(lambda: side @ side, "cpu") for _ in range(5))
    seconds = moved / (1e9 * copy_bandwidth("cpu", 1 << 26)) + flops / rate
    return {"hop_bytes": moved, "solve_flops": flops, "floor_seconds": seconds}


def _gcn_seconds(graph: Graph) -> float | None:
    """One run of a plain GCN, two layers of 64 channels, 200 epochs; wide features are always sparse."""
    x = graph.x
    if not isinstance(x, SparseMatrix) and graph.num_features >= WIDE:
        x = SparseMatrix(x)
    return time_run("gcn", replace(graph, x=x), "accuracy", PLAIN, 0)[0]


def _trees(graph: Graph) -> Record:
    """Boosted trees on the features and their means over one and two steps."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    start = time.perf_counter()
    operator, hops = graph.operator("sage").matrix, [dense(graph.x)]
    for _ in range(2):
        hops.append(operator @ hops[-1])
    table, y = torch.cat(hops, dim=1).numpy(), graph.y.numpy()
    trees = HistGradientBoostingClassifier(random_state=0).fit(table[graph.train], y[graph.train])
    seconds = time.perf_counter() - start
    return {"trees_seconds": seconds, "trees_mean": float(np.mean(trees.predict(table[graph.test]) == y[graph.test]))}


def finish(records: Sequence[Record]) -> list[Record]:
    """The records, and after them the slopes of log seconds and log memory over nodes and over columns."""
    rows, slopes = [r for r in records if r["method"] != "slope"], []
    for against, other in (("nodes", "columns"), ("columns", "nodes")):
        places = {name: f"{name} {{}}" for name in (other, "kind", "labels")}
        slopes += log_slopes(rows, QUANTITIES, against, places)
    return [*rows, *({"dataset": "generated"} | slope for slope in slopes)]


if __name__ == "__main__":
    answer(measure)
