"""plotly: its Python part, which makes figures, and its script, which draws them inside the page."""

import base64
import gzip
from functools import cache
from importlib import resources
from importlib.util import find_spec

from rapgnn.errors import InputError

MISSING = "a report needs plotly: install it with pip install 'rapgnn[report]'."
NEEDED = ("plotly", "jinja2", "markdown_it")


def check_installed() -> None:
    """Refuse a report before any work is done for it, where what it is made with is not installed."""
    if any(find_spec(name) is None for name in NEEDED):
        raise InputError(MISSING)


@cache
def script() -> str:
    """plotly's script, compressed: gzip in base64, a third of its size. The page unpacks it (``page.js``)."""
    check_installed()
    source = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    return base64.b64encode(gzip.compress(source, 9, mtime=0)).decode()


def version() -> str:
    """Of plotly's Python part."""
    from importlib.metadata import version

    return version("plotly")
