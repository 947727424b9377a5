"""Where the paper contradicts itself about figures, times and large graphs; ``notes.py`` has the tables."""

from rapgnn.experiments.published import Published, one_published
from rapgnn.experiments.reproduce.claims.printed import advantage, cell, datasets, number, printed_p


def _cost(layers: int, metric: str) -> float:
    mean = one_published("costs", dataset="pubmed", method="rap", num_layers=layers, metric=metric).mean
    assert mean is not None
    return mean


def _depth() -> tuple[str, ...]:
    times = []
    for layers in (8, 32):
        factor, saved = _cost(layers, "speedup_vs_end_to_end"), _cost(layers, "train_ms_saved")
        slow = saved * factor / (factor - 1)
        times.append(f"{slow:.1f} against {slow - saved:.1f} ms with {layers} layers")
    return (
        "The caption of Figure 2 says that RAP-GNN has superior accuracy on PubMed; Table 1 has "
        f"{number(cell('pubmed', 'rap'))} against {number(cell('pubmed', 'end-to-end'))}.",
        'Section 4.3 says that Fixed Random Diagonal is slower than Fixed Random Diagonal ("Although Fixed Random '
        "Diagonal and Fixed Random Weights also reduce training time ..., they remain slower than RAP-GNN and Fixed "
        "Random "
        'Diagonal").',
        f"The savings and factors of Section 4.3 together mean {' and '.join(times)}.",
        "Appendix C counts End-to-End among the full random weights whose accuracy falls with depth; its weights are "
        "trained, and Section 4.2 does not name it.",
    )


COLLAPSE = (
    "Section 3.2 reads the rank from Figure 4, and Appendix C says that it shows the rank of five methods; its "
    "caption says that it shows the variance of two, RAP-GNN and End-to-End.",
    "The caption of Figure 4 calls a growing variance consistent with Observation 2, which is about rank and says "
    "nothing of variance.",
    "Observation 1 concludes E[rank(h w)] = 1 from rank(E[h w]) = 1. That does not follow: a matrix of independent "
    "uniform entries is invertible with probability 1, so rank(h w) = rank(h). What falls is the effective rank.",
    "Observation 2 says that the rank stays as it is, Appendix C that it decreases slightly; the observation leaves "
    "out the propagation.",
    "Appendix C counts End-to-End among the models with full random weights; its weights are trained.",
)


def _large() -> tuple[str, ...]:
    ratios = []
    for table, backbone in (("ogbn-proteins", None), ("ogbn-products", "gcn"), ("ogbn-products", "sage")):
        train, evaluate = (_ratio(table, backbone, f"{phase}_ms_per_epoch") for phase in ("train", "eval"))
        ratios.append(f"{table}{' ' + backbone.upper() if backbone else ''} {train:.1f} and {evaluate:.1f}")
    slower = []
    for backbone in ("gcn", "sage"):
        for method, name in (("fixed-full", "Fixed Random Weights"), ("random-full", "Random Weights")):
            ours, trained = (_time("ogbn-products", backbone, m, "eval_ms_per_epoch") for m in (method, "end-to-end"))
            if (ours.mean or 0) > (trained.mean or 0):
                slower.append(f"{name} {number(ours)} against {number(trained)} ms ({backbone.upper()})")
    sage = [_time("ogbn-products", "sage", method, "accuracy") for method in ("rap", "end-to-end")]
    fixed = [
        f"{advantage(cell(d, 'rap'), cell(d, 'fixed-diagonal')):.2f} on {d} (standard deviations "
        f"{cell(d, 'rap').std} and {cell(d, 'fixed-diagonal').std})"
        for d in datasets("ogbn")
    ]
    return (
        "The abstract's training time is up to 6 times lower on PubMed; on the large graphs the printed times of "
        f"training and evaluation are lower by factors of {'; '.join(ratios)}.",
        "Appendix D.3 says that the other random weights gain in efficiency on ogbn-products; in evaluation slower "
        f"than End-to-End are {'; '.join(slower)}.",
        "Appendix D.3 counts Fixed Random Diagonal among those that drop; RAP-GNN is above it by "
        f"{' and '.join(fixed)}.",
        f"Appendix D.3 calls the accuracy with GraphSAGE comparable, {number(sage[0])} against {number(sage[1])}; "
        f"from the printed figures of five runs p = {printed_p(sage[0], sage[1], 5):.2g}.",
        "Table 11 counts the edges of Planetoid graphs in both directions and those of all others once.",
    )


def _time(table: str, backbone: str | None, method: str, metric: str) -> Published:
    return one_published(table, backbone=backbone, method=method, metric=metric)


def _ratio(table: str, backbone: str | None, metric: str) -> float:
    slow, fast = (_time(table, backbone, method, metric).mean for method in ("end-to-end", "rap"))
    assert slow
    assert fast
    return slow / fast


WEIGHTS = ('Appendix C counts these matrices among "full random weights"; the figure shows them after training.',)
DEPTH, LARGE = _depth(), _large()
