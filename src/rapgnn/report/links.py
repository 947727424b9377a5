"""The page about a model of links: how good it is beside other ways, where it fails, and what it recommends."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rapgnn.device import hardware, versions
from rapgnn.graph.tasks import rocauc
from rapgnn.pairs.measures import TITLES, K, held_out_measures
from rapgnn.pairs.model import LinksOn
from rapgnn.pairs.ranking import ranked
from rapgnn.pairs.rivals import RIVALS, Product, compared
from rapgnn.pairs.splits import negatives
from rapgnn.report.model import OnPart, sections_of
from rapgnn.report.page import Page, check_installed
from rapgnn.report.parts import Cell, Facts, Notice, Part, Prose, Table, percent

MOST_TRAINED = 2_000_000  # links up to which an autoencoder is trained for the page
SHOWN_NODES, SHOWN_EACH, SHOWN_MISSED = 6, 5, 10
DEGREES = ((1, "up to 1 link"), (3, "2 or 3"), (10, "4 to 10"), (1 << 62, "more than 10"))


def write_link_report(
    estimator: Any, path: Path, data: Any, given: dict[str, Any], on_part: OnPart = lambda *progress: None
) -> None:
    """Write the page.

    Args:
        on_part: called with (sections done, all sections, the title of the next).
    """
    check_installed()
    graph, _ = estimator.on_graph(data, given)
    split, on, links = estimator.hidden(data, **given)
    names = np.arange(graph.num_nodes) if graph.ids is None else graph.ids
    makers: dict[str, Callable[[], list[Part]]] = {
        "How good it is": lambda: _quality(estimator, on, links),
        "Where it fails": lambda: _failures(on, links, names),
        "Recommendations": lambda: _examples(estimator, graph, on, names),
        "What was chosen": lambda: _chosen(estimator, on),
    }
    sections, made = sections_of(makers, on_part), versions()
    Page(
        f"{graph.name}: a report on the model of links",
        f"{type(estimator).__name__}, judged on {len(links):,} {split} links that it was not trained on, in "
        "a graph without them.",
        sections,
        f"Made by rapgnn on {hardware('cpu')}; {', '.join(f'{name} {version}' for name, version in made.items())}.",
        {"split": split, "versions": made},
    ).write(path)


def _quality(estimator: Any, on: LinksOn, links: torch.Tensor) -> list[Part]:
    seed = estimator.model_.seed
    own = {"method": "this model"} | held_out_measures(on.probabilities, partial(ranked, on), on.links, links, K, seed)
    rivals = {name: make for name, make in RIVALS.items() if name != "GCN autoencoder" or _trained(on)}
    rows = [own, *compared(rivals, on.links, on.inputs, links, K, seed)]
    table = []
    for row in rows:
        cells = [Cell(percent(row[key]), bold=row[key] >= max(r[key] for r in rows)) for key in TITLES]
        table.append([row["method"], *cells])
    parts: list[Part] = [Table(["method", *TITLES.values()], table, "Held-out links beside pairs without a link")]
    better = [row["method"] for row in rows[1:] if row["rocauc"] >= own["rocauc"]]
    if better:
        parts.append(Notice(f"No better than {', '.join(better)} by ROC-AUC: these are simpler."))
    said = (
        "There are as many random pairs, and near ones, as links; near pairs are ends of short walks (HeaRT). MRR, "
        "NDCG and Recall are those of the recommendations."
    )
    return [*parts, Prose(said)]


def _trained(on: LinksOn) -> bool:
    return len(on.links.ends) <= MOST_TRAINED


def _failures(on: LinksOn, links: torch.Tensor, names: Any) -> list[Part]:
    everything = type(on.links).of(on.links.n, torch.cat([on.links.ends, links]), None, on.links.directed)
    others = negatives(everything, len(links), "random", on.model.seed + 1)
    scores, against = on.probabilities(links), on.probabilities(others)
    degree, rows = on.features.degree, []

    def row(title: str, some: torch.Tensor) -> None:
        count = int(some.sum())
        y = torch.cat([torch.ones(count), torch.zeros(len(others))])[:, None]
        auc = rocauc(torch.cat([scores[some], against])[:, None].float(), y) if count else float("nan")
        rows.append([title, f"{count:,}", percent(auc) if count else "-"])

    fewer, low = degree[links].amin(1), -1
    for most, title in DEGREES:
        row(f"the node with fewer links has {title}", (fewer > low) & (fewer <= most))
        low = most
    common = Product(on.links.both, on.links.both).scores(links)
    row("no common neighbour", common == 0)
    row("common neighbours", common > 0)
    least = scores.argsort()[:SHOWN_MISSED]
    missed = [
        [str(names[u]), str(names[v]), f"{p:.3f}"]
        for (u, v), p in zip(links[least].tolist(), scores[least].tolist(), strict=True)
    ]
    return [
        Table(["links of which", "how many", "ROC-AUC"], rows, "By what the graph says of the two nodes"),
        Table(["from", "to", "probability"], missed, "Held-out links that were expected least", left=2),
    ]


def _examples(estimator: Any, graph: Any, on: LinksOn, names: Any) -> list[Part]:
    low, high = on.links.sides[0]
    order = on.features.degree[low:high].argsort() + low
    linked = order[on.features.degree[order] > 0]
    nodes = linked[torch.linspace(0, len(linked) - 1, min(SHOWN_NODES, len(linked))).long()]
    rows: dict[int, list[str]] = {}
    for node, neighbour, score in zip(*ranked(on, nodes, SHOWN_EACH), strict=True):
        rows.setdefault(int(node), []).append(f"{names[neighbour]} ({score:.2f})")
    table = [[str(names[node]), int(on.features.degree[node]), ", ".join(best)] for node, best in rows.items()]
    return [Table(["node", "links", f"the {SHOWN_EACH} likeliest new ones (probability)"], table, left=1)]


def _chosen(estimator: Any, on: LinksOn) -> list[Part]:
    links = on.links
    kind = "directed" if links.directed else "from one side to another" if links.bipartite else "undirected"
    facts = [("nodes", f"{links.n:,}"), ("links that are known", f"{len(links.ends):,}"), ("links are", kind)]
    facts += [
        ("features of a node", f"{estimator.schema_.in_channels:,}"),
        ("columns of a pair", f"{len(on.model.columns)}"),
    ]
    trials = [[t["head"], percent(t["rocauc_random"]), percent(t["rocauc_hard"])] for t in estimator.trials_]
    header = ["head", "ROC-AUC, random pairs", "ROC-AUC, near pairs"]
    return [Facts(facts), *([Table(header, trials, "Heads on the links that judged")] if trials else [])]
