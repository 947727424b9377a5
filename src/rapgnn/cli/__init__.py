"""The command line: one file per family of commands, and what they share.

In: words a user types. Out: tables and progress for people, JSON for machines, exit codes 0, 1 and 2. Heavy imports
happen inside the commands, so that help answers at once.
"""

import os
import sys

from rapgnn.cli import bench, compare, data, model, tune  # noqa: F401 - each adds its commands to the app
from rapgnn.cli.app import app
from rapgnn.errors import InputError


def main() -> None:
    """Entry point: bad input is one sentence and exit code 2, a failure one sentence and exit code 1."""
    try:
        app()
    except InputError as error:
        _fail(str(error), 2)
    except KeyboardInterrupt:
        _fail("interrupted.", 130)
    except OSError as error:
        _fail(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}.", 1)
    except Exception as error:
        if os.environ.get("RAPGNN_DEBUG"):
            raise
        _fail(f"internal error: {type(error).__name__}: {error} (set RAPGNN_DEBUG=1 for the traceback)", 1)


def _fail(sentence: str, code: int) -> None:
    sys.stderr.write(f"rapgnn: {sentence}\n")
    raise SystemExit(code)
