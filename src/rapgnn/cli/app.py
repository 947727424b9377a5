"""The applications that every file of commands adds its own to."""

import os
from typing import Annotated

import typer


def _print_version(wanted: bool) -> None:
    if wanted:
        from rapgnn import __version__

        typer.echo(f"rapgnn {__version__}")
        raise typer.Exit


app = typer.Typer(
    name="rapgnn",
    help="Graph neural networks with random, never trained message passing.\n\n"
    "Example: rapgnn compare cora --methods rap,end-to-end",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
data_app = typer.Typer(
    help="Datasets: list, get, info, check, convert.\n\nExample: rapgnn data info cora", no_args_is_help=True
)
bench_app = typer.Typer(
    help="Time, memory and accuracy against end-to-end training and its alternatives, in the same run.\n\n"
    "Example: rapgnn bench depth pubmed --layers 2,8,32",
    no_args_is_help=True,
)


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True)
    ] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Fetch no data (or RAPGNN_OFFLINE=1).")] = False,
) -> None:
    if offline:
        os.environ["RAPGNN_OFFLINE"] = "1"


app.add_typer(data_app, name="data")
app.add_typer(bench_app, name="bench")
