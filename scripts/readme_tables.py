"""Write the tables of README.md and docs/ from the committed measurements in results/.

python scripts/readme_tables.py          # rewrites what stands between the markers
python scripts/readme_tables.py --check  # exit code 1 if a page says anything else than results/
"""

import json
import sys
from pathlib import Path

from rapgnn.experiments.tuned import BEST, best_settings

ROOT = Path(__file__).resolve().parents[1]
DATASETS = ("cora", "citeseer", "pubmed")
# The paper's tables of training strategies and of embeddings, mean accuracy in percent.
PAPER = {
    "rap": (82.42, 70.75, 78.94),
    "end-to-end": (81.50, 70.90, 79.00),
    "pretrained-embedding": (56.55, 54.35, 72.00),
    "fixed-diagonal": (81.32, 70.12, 78.00),
    "fixed-full": (58.70, 55.88, 71.52),
    "random-full": (23.29, 45.85, 67.85),
    "identity": (80.36, 69.32, 78.91),
}
PAPER_EMBEDDINGS = {
    "pretrained": (82.42, 70.75, 78.94),
    "pretrained-gnn": None,
    "learnable": (84.36, 72.16, 79.32),
    "fixed-random": (82.82, 71.48, 78.76),
    "random": (26.30, 25.22, 37.28),
    "identity": (78.44, "OOM", 73.46),
}
# The paper's graph tables: accuracy or ROC-AUC in percent, RMSE for molesol, each with its standard deviation.
GRAPHS = {
    "mutag": "MUTAG",
    "ptc": "PTC",
    "proteins": "PROTEINS",
    "molesol": "molesol (RMSE, lower is better)",
    "moltox21": "moltox21",
    "molhiv": "molhiv",
    "molbace": "molbace",
}
PAPER_GRAPHS = {
    "rap": ("90.4 ± 5.2", "64.2 ± 9.8", "75.9 ± 3.8", "1.083 ± 0.053", "73.78 ± 0.51", "76.04 ± 0.71", "73.42 ± 2.59"),
    "end-to-end": (
        *("89.4 ± 5.6", "64.6 ± 7.0", "76.2 ± 2.8"),
        *("1.173 ± 0.057", "74.91 ± 0.51", "75.58 ± 1.40", "72.97 ± 4.00"),
    ),
    "pretrained-embedding": (
        *("85.7 ± 7.9", "59.0 ± 4.5", "73.2 ± 3.8"),
        *("1.235 ± 0.021", "69.73 ± 0.39", "70.97 ± 0.87", "65.64 ± 3.57"),
    ),
    "fixed-diagonal": (
        *("88.4 ± 7.4", "63.3 ± 7.8", "74.3 ± 3.4"),
        *("1.114 ± 0.060", "71.73 ± 0.48", "74.74 ± 0.93", "72.68 ± 3.10"),
    ),
    "fixed-full": (
        *("85.6 ± 7.8", "62.8 ± 5.5", "67.7 ± 5.0"),
        *("1.122 ± 0.014", "67.54 ± 0.51", "71.82 ± 1.28", "56.80 ± 5.55"),
    ),
    "random-full": (
        *("74.0 ± 7.5", "57.9 ± 8.4", "60.3 ± 5.9"),
        *("1.148 ± 0.029", "67.61 ± 0.32", "71.61 ± 1.32", "55.23 ± 6.21"),
    ),
}
TITLES = {
    "rap": "**RAP-GNN** (pretrained MLP)",
    "end-to-end": "End-to-End",
    "pretrained-embedding": "Pretrained Embedding",
    "fixed-diagonal": "Fixed Random Diagonal",
    "fixed-full": "Fixed Random Weights",
    "random-full": "Random Weights",
    "identity": "Identity Weights",
}


def load(name: str) -> list[dict]:
    path = ROOT / "results" / name
    return json.loads(path.read_text()) if path.exists() else []  # what was not measured is said to be so


def accuracy(record: dict) -> str:
    return f"{100 * record['mean']:.2f} ± {100 * record['std']:.2f}"


def strategies() -> str:
    lines = ["| | Cora | paper | CiteSeer | paper | PubMed | paper |", "| --- " + "| ---: " * 6 + "|"]
    found = {d: {r["method"]: r for r in load(f"compare-{d}.json")} for d in DATASETS}
    for method, published in PAPER.items():
        cells = [f"{accuracy(found[d][method])} | {p:.2f}" for d, p in zip(DATASETS, published, strict=True)]
        lines.append(f"| {TITLES[method]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def embeddings() -> str:
    lines = [
        "| RAP-GNN, embedding | Cora | paper | CiteSeer | paper | PubMed | paper |",
        "| --- " + "| ---: " * 6 + "|",
    ]
    found = {d: {r["config"]["embedding"]: r for r in load(f"embeddings-{d}.json")} for d in DATASETS}
    best = {d: (best_settings(d, "rap", BEST) or {})["embedding"] for d in DATASETS}
    for name, published in PAPER_EMBEDDINGS.items():
        cells = []
        for i, d in enumerate(DATASETS):
            ours = accuracy(found[d][name]) if name in found[d] else "not measured"
            paper = "–" if published is None else published[i]
            cells.append(f"{'**' + ours + '**' if best[d] == name else ours} | {paper}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def graphs() -> str:
    lines = ["| | RAP-GNN | paper | End-to-End | paper | strict: RAP-GNN | strict: End-to-End |"]
    lines.append("| --- " + "| ---: " * 6 + "|")
    for i, (dataset, title) in enumerate(GRAPHS.items()):
        found = {r["method"]: r for r in load(f"compare-{dataset}.json")}
        cells = [f"{_figure(found.get(m))} | {PAPER_GRAPHS[m][i]}" for m in ("rap", "end-to-end")]
        strict = [_figure(found.get(m), "strict_") for m in ("rap", "end-to-end")]
        lines.append(f"| {title} | {' | '.join(cells + strict)} |")
    return "\n".join(lines)


def ablations() -> str:
    lines = ["| | " + " | ".join(title.split(" (")[0] for title in GRAPHS.values()) + " |"]
    lines.append("| --- " + "| ---: " * len(GRAPHS) + "|")
    found = {d: {r["method"]: r for r in load(f"compare-{d}.json")} for d in GRAPHS}
    for method in ("rap", "fixed-diagonal", "identity", "fixed-full", "random-full", "pretrained-embedding"):
        title = "**RAP-GNN**" if method == "rap" else TITLES[method]
        lines.append(f"| {title} | " + " | ".join(_figure(found[d].get(method)) for d in GRAPHS) + " |")
        if method in PAPER_GRAPHS:
            lines.append("| *paper* | " + " | ".join(f"*{value}*" for value in PAPER_GRAPHS[method]) + " |")
    return "\n".join(lines)


def graph_speed() -> str:
    lines = ["| one training epoch | PROTEINS, ms | faster than end-to-end | molhiv, ms | faster than end-to-end |"]
    lines.append("| --- " + "| ---: " * 4 + "|")
    rows = zip(load("bench-graphs-proteins.json"), load("bench-graphs-molhiv.json"), strict=True)
    for pair in rows:
        cells = [f"{_ms(r['train_ms_per_epoch'])} | {_times(r['speedup_vs_end_to_end'])}" for r in pair]
        lines.append(f"| {pair[0]['title']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def batches() -> str:
    records = load("batches-proteins.json")
    sizes = [str(r["config"]["batch_size"]) for r in records]
    lines = [f"| PROTEINS, batch size | {' | '.join(sizes)} |", "| --- " + "| ---: " * len(sizes) + "|"]
    lines.append("| RAP-GNN | " + " | ".join(_figure(r) for r in records) + " |")
    lines.append("| *paper* | *75.1 ± 3.3* | *75.9 ± 3.8* | *75.0 ± 3.1* |")
    return "\n".join(lines)


def _figure(record: dict | None, prefix: str = "") -> str:
    if record is None or f"{prefix}mean" not in record:
        return "–" if prefix else "not measured"
    mean, std, seeds = record[f"{prefix}mean"], record[f"{prefix}std"], len(record["seeds"])
    folds = "fold," in record["protocol"]
    factor, digits = (1, 3) if record["metric"] == "rmse" else (100, 1 if folds else 2)
    spread = "" if seeds == 1 and not folds else f" ± {factor * std:.{digits}f}"
    told = "" if folds or seeds >= 5 else f" ({seeds} seed{'s' if seeds > 1 else ''})"
    return f"{factor * mean:.{digits}f}{spread}{told}"


def speed() -> str:
    records = [r for r in load("bench-depth-pubmed.json") if r["num_layers"] == 32]
    lines = ["| one training epoch | ms | faster than end-to-end | than PyG's GCN | peak memory |"]
    lines.append("| --- " + "| ---: " * 4 + "|")
    for r in records:
        memory = f"{r['peak_memory_mb']:,.0f} MB"
        ratios = f"{_times(r['speedup_vs_end_to_end'])} | {_times(r['speedup_vs_pyg'])}"
        lines.append(f"| {r['title']} | {_ms(r['train_ms_per_epoch'])} | {ratios} | {memory} |")
    return "\n".join(lines)


def depth() -> str:
    records = load("depth-accuracy-pubmed.json")
    depths = sorted({r["config"]["num_layers"] for r in records})
    lines = ["| PubMed, layers | " + " | ".join(map(str, depths)) + " |", "| --- " + "| ---: " * len(depths) + "|"]
    for method in ("rap", "fixed-diagonal", "fixed-full", "random-full"):
        row = {r["config"]["num_layers"]: r for r in records if r["method"] == method}
        lines.append(f"| {TITLES[method]} | " + " | ".join(f"{100 * row[n]['mean']:.1f}" for n in depths) + " |")
    return "\n".join(lines)


def _times(value: float) -> str:
    return f"{value:,.0f}×" if value >= 10 else f"{value:.1f}×"


def _ms(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2f}"


def auto() -> str:
    lines = ["| graph | kind | accuracy | tuned GCN | fit, s | GCN, 200 epochs, s | faster |"]
    lines.append("| --- | --- " + "| ---: " * 5 + "|")
    for r in load("auto-unseen.json"):
        accuracies = f"{100 * r['mean']:.1f} | {100 * r['gcn_mean']:.1f}"
        times = f"{r['fit_seconds']:.2f} | {r['gcn_seconds']:.2f} | {_times(r['gcn_seconds'] / r['fit_seconds'])}"
        lines.append(f"| {r['dataset']}, {r['nodes']:,} nodes | {r['about']} | {accuracies} | {times} |")
    return "\n".join(lines)


TABLES = (strategies, embeddings, speed, depth, graphs, ablations, graph_speed, batches, auto)
PAGES = ("README.md", "docs/results.md", "docs/configuration.md")


def rendered(page: str) -> str:
    """The page with every table it has markers for."""
    text = (ROOT / page).read_text()
    for table in TABLES:
        name = table.__name__.replace("_", "-")
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        if begin in text:
            before, rest = text.split(begin)
            text = before + begin + table() + "\n" + end + rest.split(end)[1]
    return text


def main() -> int:
    changed = [page for page in PAGES if (ROOT / page).read_text() != rendered(page)]
    if "--check" in sys.argv:
        return int(bool(changed))
    for page in changed:
        (ROOT / page).write_text(rendered(page))
    return 0


if __name__ == "__main__":
    sys.exit(main())
