"""Where the paper contradicts itself, by the item in which it shows.

Every figure is looked up or computed from the published tables; tests check that each contradiction is one.
Numbers of sections, tables and figures are those of the paper with its appendix.
"""

from rapgnn.experiments.published import Published, find_published, one_published
from rapgnn.experiments.reproduce.claims.notes_figures import COLLAPSE, DEPTH, LARGE, WEIGHTS
from rapgnn.experiments.reproduce.claims.printed import (
    TABLES,
    advantage,
    cell,
    datasets,
    number,
    printed_better,
    printed_p,
    versus,
)
from rapgnn.experiments.reproduce.table2 import RESERVOIRS
from rapgnn.experiments.reproduce.tables import DATASETS as TITLES
from rapgnn.graph.splits import FOLDS

FLOAT = 4  # bytes
CITESEER = (3327, 3703)  # nodes and features
MOLHIV_GRAPHS = 41127


def _listed(names: tuple[str, ...] | list[str]) -> str:
    shown = [TITLES.get(name, name) for name in names]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _outperforms(dataset: str) -> str:
    """What the printed figures say of "outperforms" and "competitive"."""
    ours, theirs = cell(dataset, "rap"), cell(dataset, "end-to-end")
    p = printed_p(ours, theirs, TABLES[ours.table])
    gap = abs(advantage(ours, theirs))
    digits = 3 if ours.metric == "rmse" else 2
    return f"{TITLES.get(dataset, dataset)}: {gap:.{digits}f}, p = {p:.2g}"


def _full_above_embedding(table: str) -> str:
    """Full weights that are printed above the embedding alone, which the text excludes."""
    shown = []
    for method, name in (("fixed-full", "Fixed Random Weights"), ("random-full", "Random Weights")):
        for dataset in (d for d in datasets(table) if d in printed_better(method, "pretrained-embedding")):
            shown.append(f"{versus(dataset, method, 'pretrained-embedding')} ({name})")
    return (
        "Section 4.2 says that full weights are lower than the Pretrained Embedding or similar to it; printed above it "
        f"are {'; '.join(shown)}."
    )


def _end_to_end_twice() -> str:
    shown = []
    for dataset in datasets("weights"):
        main, other = (one_published(table, dataset=dataset, method="end-to-end") for table in ("planetoid", "weights"))
        if (main.mean, main.std) != (other.mean, other.std):
            shown.append(f"{TITLES[dataset]} {number(main)} ± {main.std} and {number(other)} ± {other.std}")
    return f"End-to-End stands with two figures, in Tables 1 and 6 and in Table 5: {'; '.join(shown)}."


def _reservoirs() -> str:
    shown = [
        f"{RESERVOIRS[c.method]} {number(c)} against {number(cell(c.dataset, 'rap'))} on {TITLES[c.dataset]}"
        for c in find_published("tu")
        if c.method in RESERVOIRS and c.mean is not None and advantage(c, cell(c.dataset, "rap")) > 0
    ]
    return (
        "The caption of Table 2 says that RAP-GNN outperforms the reservoir systems, Section 4.1 that it is "
        f"comparable; printed above it are {'; '.join(shown)}."
    )


def _reservoirs_without() -> str:
    missing = [d for d in datasets("tu") if all(c.mean is None for c in _quoted(d))]
    return f"The reservoir systems were evaluated on the same datasets (Section 4.1): none on {_listed(missing)}."


def _quoted(dataset: str) -> list[Published]:
    return [c for c in find_published("tu", dataset=dataset) if c.method in RESERVOIRS]


def _full_above_end_to_end() -> str:
    shown = [
        f"{versus(dataset, method, 'end-to-end')} ({name})"
        for method, name in (("fixed-full", "Fixed Random Weights"), ("random-full", "Random Weights"))
        for dataset in printed_better(method, "end-to-end")
    ]
    return (
        "Section 4.2 says that full weights have a notable gap to End-to-End; printed better than End-to-End are "
        f"{'; '.join(shown)} (RMSE, lower is better)."
    )


def _behind_elsewhere() -> str:
    others = [d for table in TABLES for d in datasets(table) if d != "molbace"]
    behind = [d for d in others if d not in printed_better("rap", "end-to-end")]
    return (
        "Appendix D.5 says that RAP-GNN outperforms all baselines as on other datasets; End-to-End is printed above it "
        f"on {len(behind)} of the {len(others)} others: {_listed(behind)}."
    )


def _identity() -> tuple[str, ...]:
    lower = []
    for method, name in (("fixed-full", "Fixed Random Weights"), ("random-full", "Random Weights")):
        found = [_weights(d, method) for d in datasets("weights")]
        lower.append(f"{name} has {', '.join(map(number, found))}")
    identity = [_weights(d, "identity") for d in datasets("weights")]
    pubmed = {m: _weights("pubmed", m) for m in ("identity", "fixed-diagonal", "end-to-end")}
    return (
        f"Appendix D.1 calls Identity Weights the lowest of the variants ({', '.join(map(number, identity))} on Cora, "
        f"CiteSeer and PubMed); {'; '.join(lower)}, and on PubMed Fixed Random Diagonal has "
        f"{number(pubmed['fixed-diagonal'])}.",
        "Appendix D.1 says that identity weights pass the input on unchanged and cannot compare with End-to-End; they "
        f"propagate, h + σ(S h), and on PubMed they are {advantage(pubmed['end-to-end'], pubmed['identity']):.2f} "
        "below it.",
    )


def _weights(dataset: str, method: str) -> Published:
    return one_published("weights", dataset=dataset, method=method)


def _embedding(dataset: str, name: str) -> Published:
    return one_published("embeddings", dataset=dataset, method="rap", embedding=name)


def _above_pretrained(name: str) -> str:
    found = [(_embedding(d, name), _embedding(d, "pretrained")) for d in datasets("embeddings")]
    shown = [(a, b) for a, b in found if a.mean is not None and advantage(a, b) > 0]
    return "; ".join(f"{TITLES[a.dataset]} {number(a)} against {number(b)}" for a, b in shown)


def _fixed_random() -> str:
    fixed = [_embedding(d, "fixed-random") for d in datasets("embeddings")]
    trained = [one_published("embeddings", dataset=d, method="end-to-end") for d in datasets("embeddings")]
    return (
        "Appendix D.2 says that the fixed random embedding suffers from large variance: its standard deviations are "
        f"{', '.join(str(c.std) for c in fixed)}, those of End-to-End {', '.join(str(c.std) for c in trained)}."
    )


def _batches() -> tuple[str, ...]:
    found = find_published("batches")
    means = [c.mean for c in found if c.mean is not None]
    gap = advantage(cell("proteins", "end-to-end"), cell("proteins", "rap"))
    return (
        f"Appendix D.4 calls the influence of the batch size minimal: the figures lie {max(means) - min(means):.1f} "
        f"apart, End-to-End {gap:.1f} above RAP-GNN on the same dataset (Table 2).",
        f"Batches of {max(c.batch_size or 0 for c in found)} are outside the search of Table 14, {{128, 256, 512}}.",
    )


NOTES: dict[str, tuple[str, ...]] = {
    "table1": (
        _end_to_end_twice(),
        "RAP-GNN outperforms End-to-End on Cora (Section 4.1); from the printed figures of five runs, "
        f"{_outperforms('cora')}.",
        _full_above_embedding("planetoid"),
        "The paper does not say how full weights are distributed. Observation 1 takes U[0, 1] and finds rank 1; its "
        "Fixed Random Weights are above the embedding alone on "
        f"{versus('cora', 'fixed-full', 'pretrained-embedding')}.",
        "The equation of the GCN layer has no self-loops; the end-to-end network follows PyTorch Geometric's example, "
        "whose layer adds them.",
        "Section 3.3 says that experiments show more accurate predictions than with random node features; the paper "
        "has no such experiment.",
    ),
    "table2": (
        _reservoirs(),
        _reservoirs_without(),
        f"Printed ahead of End-to-End; from the printed figures of {FOLDS} folds, {_outperforms('mutag')}.",
        _full_above_embedding("tu"),
    ),
    "table3": (
        "Outperforms End-to-End, says Section 4.1; from the printed figures of five runs, "
        f"{'; '.join(map(_outperforms, ('molesol', 'molhiv')))}.",
        "Competitive, says Section 4.1, where End-to-End is ahead; from the printed figures, "
        f"{_outperforms('moltox21')}.",
        _full_above_end_to_end(),
        _full_above_embedding("molecules"),
        "Section 4.1 names the backbone GINE, Appendix E.2 GIN.",
        "Section 4.2 cites Table 3 for node tasks; its tasks are of graphs.",
        f"Table 12 has no batch size for molhiv, {MOLHIV_GRAPHS:,} graphs; Appendix E.2 explains the dash by node "
        "classification, where batches are not needed.",
        "The dropout of molhiv in Table 12, [0, 0.5, 0.6], is neither a range nor a set in the appendix's notation.",
    ),
    "molbace": (
        f"Outperforms End-to-End, says Section 4.1; from the printed figures of five runs, {_outperforms('molbace')}.",
        _behind_elsewhere(),
    ),
    "identity": (*_identity(), _end_to_end_twice()),
    "embeddings": (
        f"The learnable row is above RAP-GNN on every dataset: {_above_pretrained('learnable')}.",
        "Section 4 says that Appendix D.2 underscores the role of pretraining; the fixed random embedding, which is "
        f"not trained, is above RAP-GNN on {_above_pretrained('fixed-random')}.",
        _fixed_random(),
        "The identity embedding runs out of memory on CiteSeer; the features, which it passes on, take "
        f"{FLOAT * CITESEER[0] * CITESEER[1] / 1e6:.0f} MB as dense 32-bit numbers.",
    ),
    "batches": _batches(),
    "large": LARGE,
    "depth": DEPTH,
    "collapse": COLLAPSE,
    "weights": WEIGHTS,
}
"""Item -> sentences."""
