"""Write the tables of README.md from the committed measurements in results/.

python scripts/readme_tables.py          # rewrites what stands between the markers
python scripts/readme_tables.py --check  # exit code 1 if README.md says anything else than results/
"""

import json
import sys
from pathlib import Path

from rapgnn.defaults import BEST, best_settings

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
    return json.loads((ROOT / "results" / name).read_text())


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


def rendered() -> str:
    text = (ROOT / "README.md").read_text()
    for name, table in {"strategies": strategies, "embeddings": embeddings, "speed": speed, "depth": depth}.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, rest = text.split(begin)
        text = before + begin + table() + "\n" + end + rest.split(end)[1]
    return text


def main() -> int:
    path, new = ROOT / "README.md", rendered()
    if "--check" in sys.argv:
        return int(path.read_text() != new)
    path.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
