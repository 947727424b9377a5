"""The committed measurements of accuracy; speed is measured by ``rapgnn bench``.

    python -m rapgnn.experiments.measure compare|embeddings|depth|batches [dataset ...]
        [--only part ...] [--seeds N] [--protocol both|paper|strict] [--root folder]

compare: all methods, five seeds (cross-validated datasets: one).
embeddings: RAP-GNN with every embedding, five seeds.
depth: RAP-GNN's settings on PubMed, 64 channels, with 1 to 32 layers, for RAP-GNN and its ablations, three seeds.
batches: RAP-GNN on PROTEINS with batches of 256, 512 and 1024 graphs, three seeds.
"""

import shlex
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rapgnn.datasets import load_dataset
from rapgnn.errors import InputError, check_choice
from rapgnn.experiments.compare import compare, plan
from rapgnn.experiments.results import one_sentence, read_records, results_folder, write_records
from rapgnn.experiments.run import PROTOCOLS, Record, run, warm_up
from rapgnn.experiments.tuned import default_config, stored
from rapgnn.graph.graph import Graph
from rapgnn.layers.embedding import EMBEDDINGS
from rapgnn.training.methods import STRATEGIES

PLANETOID = ("cora", "citeseer", "pubmed")
GRAPHS = ("mutag", "ptc", "proteins", "molesol", "moltox21", "molhiv", "molbace")
DEPTHS = (1, 2, 4, 8, 16, 32)
DEPTH_METHODS = ("rap", "fixed-diagonal", "fixed-full", "random-full")
BATCH_SIZES = ("256", "512", "1024")


@dataclass(frozen=True)
class Job:
    """One kind of measurement, made of parts that can be measured one at a time.

    Args:
        measure: (graph, part, seeds, protocol) -> the part's records.
        parts: their names, in the order of the file.
        part_of: the part a record belongs to.
        datasets: where it is made unless told otherwise.
        seeds: how many; ``fold_seeds`` where each seed is a cross-validation.
    """

    measure: Callable[[Graph, str, Sequence[int], str], list[Record]]
    parts: tuple[str, ...]
    part_of: Callable[[Record], str]
    datasets: tuple[str, ...]
    seeds: int
    fold_seeds: int = 1


def _compare(graph: Graph, method: str, seeds: Sequence[int], protocol: str) -> list[Record]:
    return compare(graph, plan(graph, [method], None, {}), seeds, protocol)


def _embeddings(graph: Graph, name: str, seeds: Sequence[int], protocol: str) -> list[Record]:
    warm_up(["rap"], graphs=graph.ptr is not None)
    chosen = [s for s in stored() if (s["dataset"], s["method"], s["embedding"]) == (graph.name, "rap", name)]
    record = run("rap", graph, default_config(graph, "rap", name), seeds, protocol=protocol)
    return [record | {"search_trials": chosen[0]["trials"] if chosen else 0}]


def _depth(graph: Graph, method: str, seeds: Sequence[int], protocol: str) -> list[Record]:
    config = default_config(graph, "rap").update(hidden_channels=64)
    if method == "random-full":  # every epoch is a pass over the graph
        config = config.update(epochs=50)
    return [run(method, graph, config.update(num_layers=n), seeds, protocol=protocol) for n in DEPTHS]


def _batches(graph: Graph, size: str, seeds: Sequence[int], protocol: str) -> list[Record]:
    warm_up(["rap"], graphs=True)
    return [run("rap", graph, default_config(graph, "rap").update(batch_size=int(size)), seeds, protocol=protocol)]


def _method(record: Record) -> str:
    return record["method"]


def _embedding(record: Record) -> str:
    return record["config"]["embedding"]


def _batch_size(record: Record) -> str:
    return str(record["config"]["batch_size"])


JOBS = {
    "compare": Job(_compare, STRATEGIES, _method, PLANETOID + GRAPHS, seeds=5),
    "embeddings": Job(_embeddings, tuple(EMBEDDINGS), _embedding, PLANETOID, seeds=5),
    "depth": Job(_depth, DEPTH_METHODS, _method, ("pubmed",), seeds=3),
    "batches": Job(_batches, BATCH_SIZES, _batch_size, ("proteins",), seeds=3, fold_seeds=3),
}


def measure(
    job: str,
    dataset: str,
    root: Path = Path(),
    *,
    only: Sequence[str] = (),
    seeds: int | None = None,
    protocol: str = "both",
    say: Callable[[str], None] = lambda line: None,
) -> Path:
    """Measure one dataset and write ``results/<job>/<dataset>.json``.

    Args:
        root: the repository.
        only: these parts alone; the records of the others stay as they were measured.
        seeds: how many, from 0 on; None takes the job's number.
        say: told, a line at a time, which part begins.
    """
    check_choice("job", job, JOBS)
    check_choice("protocol", protocol, PROTOCOLS)
    if seeds is not None and seeds < 1:
        raise InputError(f"the number of seeds must be at least 1, got {seeds}.")
    chosen = JOBS[job]
    for part in only:
        check_choice("part", part, chosen.parts)
    folder = results_folder(root)
    graph = load_dataset(dataset)
    count = seeds or (chosen.fold_seeds if graph.folds else chosen.seeds)
    command = {"command": _command(job, dataset, only, seeds, protocol)}
    records = []
    for part in (p for p in chosen.parts if not only or p in only):
        say(f"{graph.name} {part}")
        records += [record | command for record in chosen.measure(graph, part, range(count), protocol)]
    if only and (folder / job / f"{graph.name}.json").is_file():
        records += [r for r in read_records(root, job, graph.name) if chosen.part_of(r) not in only]
    records.sort(key=lambda r: chosen.parts.index(chosen.part_of(r)))
    return write_records(root, job, graph.name, records)


def _command(job: str, dataset: str, only: Sequence[str], seeds: int | None, protocol: str) -> str:
    """What makes this file again; no folder of this machine is in it."""
    words = ["python", "-m", "rapgnn.experiments.measure", job, dataset]
    words += ["--only", *only] if only else []
    words += ["--seeds", str(seeds)] if seeds else []
    words += ["--protocol", protocol] if protocol != "both" else []
    return shlex.join(words)


def make_parser() -> ArgumentParser:
    """The command's options."""
    parser = ArgumentParser(prog="python -m rapgnn.experiments.measure", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("job", choices=list(JOBS))
    parser.add_argument("datasets", nargs="*", metavar="dataset", help="those of the committed results unless named")
    parser.add_argument("--only", nargs="+", default=(), metavar="part", help="a method, an embedding or a batch size")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--protocol", choices=PROTOCOLS, default="both", help="for cross-validated datasets")
    parser.add_argument("--root", type=Path, default=Path(), help="the repository (default: this folder)")
    return parser


@one_sentence
def main(words: Sequence[str] | None = None) -> int:
    """The command: measure one dataset after another."""
    given = make_parser().parse_args(words)
    options = {"only": given.only, "seeds": given.seeds, "protocol": given.protocol}
    for dataset in given.datasets or JOBS[given.job].datasets:
        print(measure(given.job, dataset, given.root, **options, say=lambda line: print(line, flush=True)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
