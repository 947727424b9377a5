"""The claims about settings of RAP-GNN: the embedding, the batch size, and how it predicts."""

from collections.abc import Callable, Sequence
from typing import Any

from rapgnn.experiments.published import find_published
from rapgnn.experiments.reproduce.claims.accuracy import DATASETS
from rapgnn.experiments.reproduce.claims.evidence import TABLES, Evidence
from rapgnn.experiments.reproduce.claims.significance import TIED
from rapgnn.experiments.reproduce.claims.verdict import (
    BETTER,
    FAILS,
    HOLDS,
    NOT_BEHIND,
    PART,
    Claim,
    Finding,
    Rule,
    compared,
    decide,
    left_open,
    settle,
)
from rapgnn.experiments.reproduce.rows import EXPECTATION, FAITHFUL
from rapgnn.experiments.reproduce.table1 import PLANETOID
from rapgnn.experiments.run import Record

SMALL = 2.0  # points; the rule of the batch sizes


def embeddings(rule: Rule, first: str, second: str) -> Callable[[Evidence], Finding]:
    """A claim about RAP-GNN with two embeddings."""

    def judge(evidence: Evidence) -> Finding:
        rows: list[Record] = []
        for dataset in PLANETOID:
            found = [_embedded(evidence, dataset, name) for name in (first, second)]
            rows += compared(found, (f"{first} embedding", f"{second} embedding"))
        return decide(rule, settle(rows))

    return judge


def _embedded(evidence: Evidence, dataset: str, embedding: str) -> Record | None:
    wanted: dict[str, Any] = {"dataset": dataset, "method": "rap", "embedding": embedding}
    return evidence.scores(("embeddings", "table1"), **wanted)


def batch_sizes(evidence: Evidence) -> Finding:
    """Every pair of batch sizes on PROTEINS."""
    found = {}
    for cell in find_published("batches"):
        record = evidence.scores(("batches",), dataset=cell.dataset, method="rap", batch_size=cell.batch_size)
        if record is not None:
            found[cell.batch_size] = record
    sizes, rows = sorted(found), []
    for i, small in enumerate(sizes):
        for large in sizes[i + 1 :]:
            names = (f"batches of {large}", f"batches of {small}")
            rows += compared([found[large], found[small]], names)
    if not rows:
        return Finding()
    largest = max(rows, key=lambda row: abs(row["difference"]))
    note = f"Largest difference: {abs(largest['difference']):.2f} points."
    return decide(_little_influence(abs(largest["difference"])), settle(rows), note)


def _little_influence(largest: float) -> Rule:
    def judge(outcomes: Sequence[str]) -> str:
        level = all(found == TIED for found in outcomes)
        return HOLDS if level else PART if largest < SMALL else FAILS

    return Rule(
        "Holds if no two batch sizes can be told apart, in part if all their differences are below "
        f"{SMALL:.0f} points, does not hold otherwise.",
        judge,
    )


def expectation(evidence: Evidence) -> Finding:
    """The same models, with the exact expectation and with one draw."""
    rows: list[Record] = []
    names = ("expectation", "one draw")
    for dataset in DATASETS:
        found = [evidence.scores(TABLES, c, dataset=dataset, method="rap") for c in (EXPECTATION, FAITHFUL)]
        rows += compared(found, names, paired=True)
    rows = settle(rows)
    return decide(NOT_BEHIND, rows, left_open(rows))


CLAIMS = (
    Claim(
        "embedding-learnable",
        "A learnable embedding is an upper bound for RAP-GNN with a pretrained one (Appendix D.2).",
        NOT_BEHIND.sentence,
        embeddings(NOT_BEHIND, "learnable", "pretrained"),
    ),
    Claim(
        "embedding-random",
        "An embedding drawn anew in every forward pass fails (Appendix D.2).",
        BETTER.sentence,
        embeddings(BETTER, "pretrained", "random"),
    ),
    Claim(
        "embedding-identity",
        "Without an embedding accuracy drops (Appendix D.2: Cora and PubMed; CiteSeer does not fit into memory).",
        BETTER.sentence,
        embeddings(BETTER, "pretrained", "identity"),
    ),
    Claim(
        "batch-size",
        "The batch size has minimal influence (Appendix D.4, PROTEINS).",
        _little_influence(0).sentence,
        batch_sizes,
    ),
    Claim(
        "expectation",
        "Past the paper: predicting with the exact expectation is at least as good as with one draw.",
        NOT_BEHIND.sentence,
        expectation,
    ),
)
