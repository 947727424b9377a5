"""What every fuzzed call must do: give something sane, or refuse its input in one sentence, soon."""

import signal
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from rapgnn import InputError, InputNotice
from rapgnn.graph.graph import Graph
from rapgnn.sparse import dense

REFUSED = object()
SECONDS = 20  # of one call; they take milliseconds
LONGEST = 400

# How many malformed inputs each test generates; together at least 2,000.
EXAMPLES = {
    "bytes": 360,
    "text": 300,
    "refused text": 240,
    "arrays": 120,
    "columns": 80,
    "index bytes": 240,
    "index values": 320,
    "weights": 160,
    "node fit": 420,
    "node use": 240,
    "graph lists": 300,
    "extremes": 200,
    "settings": 160,
}


def examples(name: str) -> settings:
    """So many examples, the same in every run."""
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
    return settings(
        max_examples=EXAMPLES[name], deadline=None, derandomize=True, database=None, suppress_health_check=checks
    )


def outcome(action: Callable[[], Any]) -> Any:
    """What the action gives, or ``REFUSED``; another exception, a warning or a hang fails the test."""

    def late(*_: Any) -> None:
        raise AssertionError(f"no answer after {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputNotice)
            return action()
    except InputError as error:
        sentence = str(error)
        assert sentence.strip()
        assert sentence.isprintable()  # no line break either
        assert len(sentence) <= LONGEST
        assert sentence.endswith(".")
        return REFUSED
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def sane(graph: Graph) -> None:
    """Finite features, and every number in its range."""
    assert bool(torch.isfinite(dense(graph.x)).all())
    for extra in (graph.edge_attr, graph.edge_weight):
        assert extra is None or bool(torch.isfinite(dense(extra)).all())
    if graph.edge_index.numel():
        assert int(graph.edge_index.min()) >= 0
        assert int(graph.edge_index.max()) < graph.num_nodes
    assert len(graph.y) == graph.num_rows
    if graph.y.dim() == 1:
        assert int(graph.y.min()) >= -1
        assert int(graph.y.max()) < graph.num_outputs
    else:
        assert not bool(graph.y.isinf().any())
    assert graph.classes is None or len(graph.classes) == graph.num_outputs
    for split in ("train", "val", "test"):
        rows = graph.rows(split)
        assert not len(rows) or 0 <= int(rows.min()) <= int(rows.max()) < graph.num_rows
    assert len(graph.train)


def finite(values: Any, rows: int) -> None:
    """A row of finite numbers for every row of the data."""
    assert len(values) == rows
    assert np.isfinite(np.asarray(values, dtype=np.float64)).all()


@st.composite
def damaged(draw: st.DrawFn, whole: bytes, other: bytes = b"") -> bytes:
    """A file that lost its end, had bytes changed, moved or put in, or is another file altogether."""
    way = draw(st.sampled_from(["cut", "flip", "flip", "insert", "replace", "drop", "repeat", "other", "garbage"]))
    at = draw(st.integers(0, len(whole) - 1))
    end = min(len(whole), at + draw(st.integers(1, 40)))
    if way == "cut":
        return whole[:at]
    if way == "flip":
        new = bytearray(whole)
        for place in [at, *draw(st.lists(st.integers(0, len(whole) - 1), max_size=3))]:
            new[place] ^= 1 << draw(st.integers(0, 7))
        return bytes(new)
    if way == "other":
        return other
    if way == "garbage":
        return draw(st.binary(max_size=200))
    middle = {
        "insert": draw(st.binary(min_size=1, max_size=8)) + whole[at:end],
        "drop": b"",
        "repeat": whole[at:end] * 2,
    }
    return whole[:at] + middle.get(way, draw(st.binary(min_size=1, max_size=8))) + whole[end:]
