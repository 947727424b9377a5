"""``rapgnn plan``: what a large graph will cost, before anything is run."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rapgnn.cli import shared
from rapgnn.errors import InputError


@shared.app.command()
def plan(
    folder: Annotated[Path | None, typer.Argument(help="A graph on disk.")] = None,
    machines: Annotated[int, typer.Option(help="How many, all alike.", min=1)] = 1,
    memory: Annotated[str, typer.Option(help="Of each machine.")] = "16GiB",
    layers: Annotated[int, typer.Option(help="Number of message-passing layers.", min=1)] = 3,
    nodes: Annotated[float | None, typer.Option(help="Without a folder: n.")] = None,
    edges: Annotated[float | None, typer.Option(help="Without a folder: m, both directions.")] = None,
    features: Annotated[int | None, typer.Option(help="Without a folder: c.")] = None,
    train_rows: Annotated[float | None, typer.Option(help="Rows whose hops are kept.")] = None,
    network: Annotated[float, typer.Option(help="Gbit per second between machines.")] = 10.0,
    rates: Annotated[Path | None, typer.Option(help="Measured rates of another machine.")] = None,
    measure: Annotated[bool, typer.Option("--measure", help="Measure this machine again.")] = False,
    json_file: shared.JsonFile = None,
    quiet: shared.Quiet = False,
) -> None:
    """Bytes read, moved and kept, memory and time of every layout for a large graph, before anything is run.

    Example: rapgnn plan --nodes 111e6 --edges 1.6e9 --features 128 --train-rows 1.2e6 --machines 8 --memory 64GiB
    """
    import json
    import math
    from dataclasses import replace

    from rapgnn.files import check_writable, read_regular
    from rapgnn.graph.validate import LARGEST
    from rapgnn.memory import read_size
    from rapgnn.scale.disk_graph import DiskGraph
    from rapgnn.scale.plan import Machines, Problem, Rates, advice, best, costs, known_rates, plan_rows

    check_writable(json_file)
    if not 0 < network < math.inf:
        raise InputError(f"--network must be above 0, got {network:g}.")
    there = Machines(machines, read_size(memory, "--memory"))
    given = {"nodes": nodes, "edges": edges, "features": features, "rows": train_rows}
    for name, value in given.items():
        if value is not None and not abs(value) <= LARGEST:
            raise InputError(f"--{name.replace('rows', 'train-rows')} must be a whole number, got {value:g}.")
    sizes: dict[str, Any] = {name: int(value) for name, value in given.items() if value is not None}
    absent = [f"--{name}" for name in ("nodes", "edges", "features") if name not in sizes]
    if folder is not None:
        if len(absent) < 3:
            raise InputError("give a folder, or --nodes, --edges and --features, not both.")
        problem = replace(Problem.of(DiskGraph.open(folder, verify=False), layers), **sizes)
    elif absent:
        raise InputError(f"give the folder of a graph on disk, or its sizes: {', '.join(absent)} is missing.")
    else:
        problem = Problem(weighted=False, **{"rows": 0} | sizes, layers=layers)
    if rates is not None:
        try:
            known = Rates.from_dict(json.loads(read_regular(rates, 1 << 20)))
        except (OSError, json.JSONDecodeError) as error:
            raise InputError(f"cannot read {rates}: it is no file of rates.") from error
    else:
        known = known_rates(measure, shared.say)
    known = replace(known, network=network * 1e9 / 8)
    layouts = costs(problem, there, known)
    chosen = best(layouts)
    about = {"problem": vars(problem), "machines": vars(there), "rates": vars(known)}
    taken = None if chosen is None else chosen.layout
    shared.write_json([cost.to_dict() | about | {"chosen": cost.layout == taken} for cost in layouts], json_file)
    typer.echo(str(problem))
    typer.echo(f"{machines} x {memory}, {known.machine}")
    rows = plan_rows(layouts)
    for key in rows[0]:
        typer.echo(f"{key:<20}" + "".join(f"{row[key]:<32}" for row in rows).rstrip())
    typer.echo(advice(layouts, there))
