"""Figures 3 and 6: peak memory of training, on PubMed with 32 layers and at ogbn-proteins' size.

The kind "memory" measures it as ``rapgnn bench memory`` does: above the loaded data, on a CPU in a process of its own.
Spec of a cell: ``method``, ``num_layers``, ``hidden_channels``, the machine, and ``generated`` as in ``timed``.
"""

from collections.abc import Sequence
from dataclasses import asdict

from rapgnn.experiments.bench.generated import PowerLaw, proteins_size
from rapgnn.experiments.bench.memory import in_child, peak_of
from rapgnn.experiments.bench.rows import machine, measure_or_say
from rapgnn.experiments.bench.tables import number
from rapgnn.experiments.markdown import NONE, format_ratio, format_table
from rapgnn.experiments.published import find_published
from rapgnn.experiments.reproduce.cells import Cell
from rapgnn.experiments.reproduce.figures.plots import plot_memory
from rapgnn.experiments.reproduce.item import Graphs, Item, Scale
from rapgnn.experiments.reproduce.kinds import KINDS
from rapgnn.experiments.reproduce.tables import DATASETS, below
from rapgnn.experiments.reproduce.timed import TITLES, describe_generated, ready_graph, share_of
from rapgnn.experiments.run import OnEpoch, Record

LAYERS, PROTEINS_LAYERS, CHANNELS = 32, 4, 256
QUICK_SHARE = 0.02
VERSION = 1


def memory_cell(graph: str | PowerLaw, method: str, num_layers: int, channels: int, device: str) -> Cell:
    """A cell of this kind."""
    name = graph if isinstance(graph, str) else graph.name
    spec: Record = {"method": method, "backbone": "gcn", "num_layers": num_layers, "hidden_channels": channels}
    spec |= {"version": VERSION} | machine(device)
    if not isinstance(graph, str):
        spec["generated"] = asdict(graph)
    return Cell("memory", name, spec, {"title": TITLES[method]})


def measure_memory(cell: Cell, graphs: Graphs, on_epoch: OnEpoch) -> Record:
    """The peak of one strategy; a ``note`` where it does not fit."""
    spec = cell.spec
    request = {key: spec[key] for key in ("method", "num_layers", "hidden_channels")}
    request |= {"data": spec.get("generated", cell.dataset), "device": graphs.device}
    request["data_dir"] = None if graphs.data_dir is None else str(graphs.data_dir)
    if graphs.device == "cpu":
        return spec | in_child(request)
    return spec | measure_or_say(lambda: peak_of(request, ready_graph(cell, graphs)))


def cells(scale: Scale, graphs: Graphs) -> list[Cell]:
    """All strategies on both graphs; a quick run leaves out PyG's layers, the slowest."""
    proteins = proteins_size(share_of(scale, graphs.device, QUICK_SHARE))
    methods = [m for m in TITLES if not (scale.quick and m == "end-to-end-pyg")]
    places = (("pubmed", LAYERS), (proteins, PROTEINS_LAYERS))
    return [memory_cell(graph, m, layers, CHANNELS, graphs.device) for graph, layers in places for m in methods]


def show(records: list[Record]) -> str:
    """A table for each graph."""
    parts = []
    for name in dict.fromkeys(r["dataset"] for r in records):
        mine = [r for r in records if r["dataset"] == name]
        first = mine[0]
        where = f"{DATASETS.get(name, name)}, {first['num_layers']} layers, {first['hidden_channels']} channels"
        parts.append(f"## {where}\n\n{_table(mine)}")
    gpu = str(records[0]["device"]).startswith("cuda")
    how = "peak of torch's allocator" if gpu else "peak resident size of a process of its own"
    quick = any(r.get("quick") for r in records)
    return below(
        "\n\n".join(parts),
        f"MB: {how} in training, above the loaded data (features and propagation matrix). below End-to-End: how many "
        "times less than it. The paper's figures print no numbers; the factors are from its text (RTX 4090, layer by "
        "layer).",
        describe_generated(records),
        "Quick run, cut: PyG's layers are left out, and the generated graph is smaller." if quick else "",
    )


def _table(records: Sequence[Record]) -> str:
    whole = next((r.get("peak_memory_mb") for r in records if r["method"] == "end-to-end"), None)
    rows = []
    for r in records:
        peak = r.get("peak_memory_mb")
        ratio = format_ratio(whole / peak) if whole and peak else NONE
        rows.append([r["title"], r.get("note") or number(peak), ratio, _paper(r)])
    return format_table(["", "MB", "below End-to-End", "paper"], rows)


def _paper(record: Record) -> str:
    """The factor that the text gives, for the strategies it names."""
    dataset = "ogbn-proteins" if "generated" in record else record["dataset"]
    method = "rap" if record["method"] == "rap-stepwise" else record["method"]
    found = find_published("costs", dataset=dataset, method=method, metric="memory_saving_vs_end_to_end")
    return NONE if not found else found[0].note or f"{found[0].mean:g}×"


ITEM = Item("memory", "Figures 3 and 6: peak memory of training", cells, show, plot_memory)
KINDS["memory"] = measure_memory
