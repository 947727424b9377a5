"""The commands' common trunk: every command file hangs its commands on these."""

import typer

app = typer.Typer(
    name="rapgnn",
    help="Graph neural networks with random, never trained message passing.\n\n"
    "Example: rapgnn compare cora --methods rap,end-to-end",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
data_app = typer.Typer(help="Datasets: list, get, info, check.\n\nExample: rapgnn data info cora", no_args_is_help=True)
bench_app = typer.Typer(
    help="Speed and memory, always against end-to-end training in the same run.\n\n"
    "Example: rapgnn bench depth pubmed --layers 2,8,32",
    no_args_is_help=True,
)
app.add_typer(data_app, name="data")
app.add_typer(bench_app, name="bench")
