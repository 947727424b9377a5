"""The version of the code that decides numbers, so that a measurement of other code is not taken for this one's."""

import ast
import hashlib
import io
import tokenize
from functools import cache
from pathlib import Path

DIGITS = 16
# Below the folder of the package. Commands, tables, plots and searches are not among them.
ROOMS = ("graph", "datasets", "layers", "propagation", "models", "training")
MODULES = ("sparse", "prng", "device", "memory", "captured", "fused", "fused_kernel")
EXPERIMENTS = ("experiments/run", "experiments/protocol")
SEARCH, SHOWN = "estimators", "estimators/report"  # a report decides no number
# In these rooms, but of the networks that only estimators try: no method of the paper depends on them.
NETWORKS = (
    *("layers/kernel", "layers/lift", "layers/treatment"),
    *("models/average", "models/colours", "models/hashing", "models/known_labels", "models/net_config"),
    *("models/net_hops", "models/random_net", "models/treated", "training/averaged", "training/saved"),
)
# Likewise in these rooms: how models are saved decides no number.
SAVED = ("training/checkpoint", "training/numbers", "training/schema")

PACKAGE = Path(__file__).resolve().parents[2]


@cache
def code_version(root: Path = PACKAGE) -> str:
    """Hexadecimal digits of the sources that decide numbers; words in comments and docstrings do not count.

    Args:
        root: the folder of the package.
    """
    others = {root / f"{module}.py" for module in (*NETWORKS, *SAVED)}
    paths = [path for room in ROOMS for path in (root / room).rglob("*.py") if path not in others]
    return _digest(root, paths + [root / f"{module}.py" for module in (*MODULES, *EXPERIMENTS)])


@cache
def search_version(root: Path = PACKAGE) -> str:
    """The same of the estimators' search and its networks, which only they depend on."""
    searching = [path for path in (root / SEARCH).rglob("*.py") if (root / SHOWN) not in path.parents]
    return _digest(root, [*searching, *(root / f"{module}.py" for module in NETWORKS)])


def _digest(root: Path, paths: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        text = statements(path.read_text(encoding="utf-8"))
        digest.update(f"{path.relative_to(root).as_posix()}\n{text}\n".encode())
    return digest.hexdigest()[:DIGITS]


def statements(text: str) -> str:
    """A Python source without comments, docstrings and empty lines."""
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            assert node.end_lineno is not None
            lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
    return "\n".join(line.rstrip() for line in lines if line.strip())
