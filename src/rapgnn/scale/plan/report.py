"""A plan for people: a table of layouts, and what to type."""

from rapgnn.scale.plan.layouts import TITLES, Cost, Machines, best
from rapgnn.scale.plan.problem import Problem
from rapgnn.scale.sizes import show_size

COMMANDS = {
    "memory": "rapgnn fit FOLDER --out model",
    "disk": "rapgnn fit FOLDER --memory {memory} --out model",
    "ray": "rapgnn fit FOLDER --cluster auto --out model, or rapgnn.scale.ray_hops.hops_on_ray(..., width={width})",
    "rows": "torchrun --nnodes {machines} -m rapgnn fit FOLDER --store hops --out model",
}


def show_seconds(seconds: float) -> str:
    """A time for people."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"


def plan_rows(found: list[Cost]) -> list[dict[str, str]]:
    """One row per layout, words by column."""
    return [
        {
            "layout": TITLES[cost.layout],
            "machines": str(cost.machines),
            "memory per machine": show_size(cost.memory) + ("" if cost.fits else " (too much)"),
            "columns per block": f"{cost.width} in {cost.blocks} block{'s' * (cost.blocks != 1)}",
            "read": show_size(cost.read),
            "moved": show_size(cost.moved) if cost.moved else "-",
            "kept": show_size(cost.kept),
            "time": show_seconds(cost.total),
        }
        for cost in found
    ]


def advice(found: list[Cost], machines: Machines) -> str:
    """Which layout to take, in a sentence."""
    chosen = best(found)
    if chosen is None:
        least = min(found, key=lambda cost: cost.memory)
        return (
            f"no layout fits into {show_size(machines.memory)}: {TITLES[least.layout]} needs the least, "
            f"{show_size(least.memory)} per machine."
        )
    command = COMMANDS[chosen.layout].format(
        memory=show_size(machines.memory), width=chosen.width, machines=chosen.machines
    )
    return f"take {TITLES[chosen.layout]}, {show_seconds(chosen.total)}: {command}"


def sizes(problem: Problem) -> str:
    """The problem in a sentence."""
    return (
        f"{problem.nodes:,} nodes, {problem.edges:,} edges, {problem.features} features, {problem.layers} layers, "
        f"hops of {problem.rows:,} rows kept"
    )
