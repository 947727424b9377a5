"""The tables of README.md and docs/, written from the committed measurements in results/.

    python -m rapgnn.experiments.pages          # rewrites what stands between the markers
    python -m rapgnn.experiments.pages --check  # exit code 1 if a page says anything else than results/

A table stands between ``<!-- name -->`` and ``<!-- /name -->``; the names are those of ``TABLES``.
"""

import re
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from rapgnn.errors import InputError
from rapgnn.experiments.markdown import (
    MISSING,
    NONE,
    format_accuracy,
    format_figure,
    format_published,
    format_ratio,
    format_table,
)
from rapgnn.experiments.measure import BATCH_SIZES, DEPTH_METHODS, DEPTHS, PLANETOID
from rapgnn.experiments.published import find_published, one_published
from rapgnn.experiments.reproduce_pages import REPRODUCED
from rapgnn.experiments.results import one_sentence, read_records, results_folder
from rapgnn.experiments.run import Record
from rapgnn.experiments.scale_pages import SCALE_TABLES
from rapgnn.experiments.speed_pages import SPEED_TABLES
from rapgnn.experiments.tuned import BEST, best_settings
from rapgnn.files import write_atomic
from rapgnn.layers.embedding import EMBEDDINGS
from rapgnn.training.methods import METHODS, STRATEGIES

BESIDE = ["Cora", "paper", "CiteSeer", "paper", "PubMed", "paper"]
TITLES = {name: METHODS[name].title for name in STRATEGIES} | {"rap": "**RAP-GNN** (pretrained MLP)"}
GRAPHS = {
    "mutag": "MUTAG",
    "ptc": "PTC",
    "proteins": "PROTEINS",
    "molesol": "molesol (RMSE, lower is better)",
    "moltox21": "moltox21",
    "molhiv": "molhiv",
    "molbace": "molbace",
}


def _by_method(root: Path, dataset: str) -> dict[str, Record]:
    return {r["method"]: r for r in read_records(root, "compare", dataset)}


def methods_table(root: Path) -> str:
    """The methods on the citation graphs, each figure beside the paper's."""
    found, rows = {d: _by_method(root, d) for d in PLANETOID}, []
    for method, title in TITLES.items():
        table = "weights" if method == "identity" else "planetoid"  # the paper has identity weights in its appendix
        cells = []
        for d in PLANETOID:
            cells += [
                format_accuracy(found[d].get(method)),
                f"{one_published(table, dataset=d, method=method).mean:.2f}",
            ]
        rows.append([title, *cells])
    return format_table(["", *BESIDE], rows)


def embeddings_table(root: Path) -> str:
    """RAP-GNN by embedding; the best on validation in bold."""
    found = {d: {r["config"]["embedding"]: r for r in read_records(root, "embeddings", d)} for d in PLANETOID}
    best = {d: (best_settings(d, "rap", BEST) or {})["embedding"] for d in PLANETOID}
    rows = []
    for name in EMBEDDINGS:
        cells = []
        for d in PLANETOID:
            ours = format_accuracy(found[d].get(name))
            cells.append(f"**{ours}**" if best[d] == name and ours != MISSING else ours)
            paper = find_published("embeddings", dataset=d, method="rap", embedding=name)
            cells.append(str(paper[0].mean or paper[0].note) if paper else NONE)
        rows.append([name, *cells])
    return format_table(["RAP-GNN, embedding", *BESIDE], rows)


def depth_table(root: Path) -> str:
    """Accuracy by the number of layers."""
    found = {(r["method"], r["config"]["num_layers"]): r for r in read_records(root, "depth", "pubmed")}
    rows = [[TITLES[m], *(f"{100 * found[m, n]['mean']:.1f}" for n in DEPTHS)] for m in DEPTH_METHODS]
    return format_table(["PubMed, layers", *map(str, DEPTHS)], rows)


def _paper_figure(dataset: str, method: str) -> str:
    table = "molecules" if dataset.startswith("mol") else "tu"
    return format_published(one_published(table, dataset=dataset, method=method))


def graphs_table(root: Path) -> str:
    """RAP-GNN and end-to-end training on the graph datasets, by the paper's protocol and the strict one."""
    pair, rows = ("rap", "end-to-end"), []
    for dataset, title in GRAPHS.items():
        found, cells = _by_method(root, dataset), []
        for m in pair:
            cells += [format_figure(found.get(m)), _paper_figure(dataset, m)]
        rows.append([title, *cells, *(format_figure(found.get(m), "strict_") for m in pair)])
    header = ["", "RAP-GNN", "paper", "End-to-End", "paper", "strict: RAP-GNN", "strict: End-to-End"]
    return format_table(header, rows)


def ablations_table(root: Path) -> str:
    """The methods on the graph datasets, ours above the paper's."""
    found, rows = {d: _by_method(root, d) for d in GRAPHS}, []
    for method in ("rap", "fixed-diagonal", "identity", "fixed-full", "random-full", "pretrained-embedding"):
        title = "**RAP-GNN**" if method == "rap" else TITLES[method]
        rows.append([title, *(format_figure(found[d].get(method)) for d in GRAPHS)])
        if method != "identity":  # which the paper has on the citation graphs only
            rows.append(["*paper*", *(f"*{_paper_figure(d, method)}*" for d in GRAPHS)])
    return format_table(["", *(title.split(" (")[0] for title in GRAPHS.values())], rows)


def batches_table(root: Path) -> str:
    """RAP-GNN by batch size."""
    found = {str(r["config"]["batch_size"]): r for r in read_records(root, "batches", "proteins")}
    paper = [one_published("batches", dataset="proteins", batch_size=int(n)) for n in BATCH_SIZES]
    rows = [
        ["RAP-GNN", *(format_figure(found.get(n)) for n in BATCH_SIZES)],
        ["*paper*", *(f"*{format_published(p)}*" for p in paper)],
    ]
    return format_table(["PROTEINS, batch size", *BATCH_SIZES], rows)


def auto_table(root: Path) -> str:
    """The estimator with nothing set against a tuned GCN."""
    rows = [
        [
            f"{r['dataset']}, {r['nodes']:,} nodes",
            r["about"],
            f"{100 * r['mean']:.1f}",
            f"{100 * r['gcn_mean']:.1f}",
            f"{r['fit_seconds']:.2f}",
            f"{r['gcn_seconds']:.2f}",
            format_ratio(r["gcn_seconds"] / r["fit_seconds"]),
        ]
        for r in read_records(root, "bench-auto", "unseen")
    ]
    header = ["graph", "kind", "accuracy", "tuned GCN", "fit, s", "GCN, 200 epochs, s", "faster"]
    return format_table(header, rows, left=2)


def trained_table(root: Path) -> str:
    """From the start to a trained model: the metric and the seconds of both, on familiar datasets."""
    titles = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed", "proteins": "PROTEINS", "molhiv": "molhiv"}
    rows = []
    for dataset, title in titles.items():
        found = _by_method(root, dataset)
        ours, theirs = found["rap"], found["end-to-end"]
        metric = "ROC-AUC" if ours["metric"] == "rocauc" else "accuracy"
        seconds = [f"{r['fit_seconds']:.1f}" for r in (ours, theirs)]
        rows.append(
            [
                f"{title}, {metric} %",
                f"{100 * ours['mean']:.1f}",
                f"{100 * theirs['mean']:.1f}",
                *seconds,
                format_ratio(theirs["fit_seconds"] / ours["fit_seconds"]),
            ]
        )
    return format_table(["", "random weights", "trained end to end", "seconds", "end to end, s", "faster"], rows)


TABLES = {
    "trained": trained_table,
    "methods": methods_table,
    "embeddings": embeddings_table,
    "depth": depth_table,
    "graphs": graphs_table,
    "ablations": ablations_table,
    "batches": batches_table,
    "auto": auto_table,
    **SPEED_TABLES,
    **SCALE_TABLES,
    **REPRODUCED,
}


def find_pages(root: Path) -> list[Path]:
    """README.md and every page of docs/."""
    return [page for page in (root / "README.md", *sorted((root / "docs").glob("*.md"))) if page.is_file()]


def render(page: Path, root: Path) -> str:
    """The page with every table it has markers for."""
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"<!-- /([\w-]+) -->", text):
        if name not in TABLES:
            raise InputError(f"{page.name} has markers for {name!r}: the tables are {', '.join(TABLES)}.")
    for name, table in TABLES.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        if begin not in text and end not in text:
            continue
        if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
            raise InputError(f"{page.name} needs one {begin.strip()} and after it one {end} for its table.")
        text = text[: text.index(begin)] + begin + table(root) + "\n" + text[text.index(end) :]
    return text


def changed_pages(root: Path = Path()) -> dict[Path, str]:
    """{page: what it should say} of the pages that say anything else than results/."""
    results_folder(root)
    rendered = {page: render(page, root) for page in find_pages(root)}
    return {page: text for page, text in rendered.items() if page.read_text(encoding="utf-8") != text}


def write_pages(root: Path = Path()) -> list[Path]:
    """Bring every page up to date; which of them changed."""
    changed = changed_pages(root)
    for page, text in changed.items():
        write_atomic(page, lambda temporary, text=text: temporary.write_text(text, encoding="utf-8"))
    return list(changed)


@one_sentence
def main(words: Sequence[str] | None = None) -> int:
    """The command."""
    parser = ArgumentParser(prog="python -m rapgnn.experiments.pages", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit code 1 if a page is out of date")
    parser.add_argument("--root", type=Path, default=Path(), help="the repository (default: this folder)")
    given = parser.parse_args(words)
    changed = changed_pages(given.root) if given.check else write_pages(given.root)
    for page in changed:
        print(f"{page}: {'differs from results/' if given.check else 'written'}")
    return int(given.check and bool(changed))


if __name__ == "__main__":
    sys.exit(main())
