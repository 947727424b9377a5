"""What every fuzzed call must do: give something sane, or refuse its input in one sentence, soon."""

import hashlib
import json
import signal
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import HealthCheck, settings
from safetensors.torch import load, save

from rapgnn import InputError, InputNotice
from rapgnn.graph.graph import Graph
from rapgnn.sparse import dense
from rapgnn.training.checkpoint import INDEX, index_digest

REFUSED = object()
SECONDS = 20  # of one call; they take milliseconds
LONGEST, SEVERAL = 400, 1600  # characters of a sentence, and of a message that names several faults


def examples(count: int) -> settings:
    """So many examples, the same in every run."""
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
    return settings(max_examples=count, deadline=None, derandomize=True, database=None, suppress_health_check=checks)


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
        sentence, most = str(error), SEVERAL if hasattr(error, "faults") else LONGEST
        assert sentence.strip()
        assert sentence.isprintable()  # no line break either
        assert len(sentence) <= most
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


def both_kinds(found: list[Any], accepted: float, refused: float) -> None:
    """At least these shares were accepted and refused: a test cannot pass by refusing, or taking, everything."""
    share = sum(one is REFUSED for one in found) / len(found)
    assert refused <= share <= 1 - accepted, f"{share:.0%} of {len(found)} refused"


def alter(folder: Path, change, state=None) -> None:
    """Change the index of a saved model, and make all hashes anew."""
    index = json.loads((folder / INDEX).read_text())
    change(index)
    path = folder / index["weights"]
    state = load(path.read_bytes()) if state is None else state
    content = save(state)
    path.write_bytes(content)
    index["sha256"] = hashlib.sha256(content).hexdigest()
    index["digest"] = index_digest(index)
    (folder / INDEX).write_text(json.dumps(index))
