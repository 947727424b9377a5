"""The command line: one file per family of commands, and what they share.

In: words a user types. Out: tables and progress for people, JSON for machines, exit codes 0, 1, 2, and 130 for Ctrl-C.
Heavy imports happen inside the commands, so that help answers at once.
"""

import io
import os
import signal
import sys
import warnings
from typing import Any, NoReturn

INTERRUPTED = 130
AGAIN_SECONDS = 0.5  # after which a Ctrl-C that something swallowed is raised once more


def main() -> None:
    """Entry point: bad input is one sentence and exit code 2, a failure one sentence and exit code 1."""
    pressed: list[int] = []
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = out, err = _Stream(sys.stdout, 1), _Stream(sys.stderr, 2)
    before = _watch_interrupts(pressed)
    try:
        _run()
    except BaseException as error:
        # Libraries turn an interrupt into other errors when they load.
        if pressed or isinstance(error, KeyboardInterrupt) or getattr(error, "code", None) == INTERRUPTED:
            _fail("interrupted.", INTERRUPTED)
        if not isinstance(error, SystemExit):
            _fail(*_sentence(error))
        out.flush()
        if out.fault is not None and not isinstance(out.fault, BrokenPipeError):
            _fail(f"cannot write the output: {out.fault.strerror}.", 1)
        raise
    finally:
        if before is not None:
            if hasattr(signal, "setitimer"):
                signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGINT, before)
        out.flush()
        err.flush()
        sys.stdout, sys.stderr = streams


class _Stream:
    """Standard output or error. Where nobody reads it, or it is full, what is written is lost, but not the work.

    Attributes:
        fault: why something could not be written; None: it could, or the stream was closed from the start.
    """

    def __init__(self, stream: Any, number: int):
        if stream is None:  # closed; the next file that is opened must not get its number
            opened = os.open(os.devnull, os.O_WRONLY)
            stream = os.fdopen(opened if opened == number else os.dup2(opened, number), "w")
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show stops nothing
        self._stream, self.fault = stream, None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._try(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        self._try(self._stream.flush)

    def _try(self, work: Any) -> None:
        try:
            work()
        except OSError as error:
            self.fault = error
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())


def _run() -> None:
    """Imports what the commands need, too: an error in there is reported like any other."""
    from importlib.metadata import entry_points

    # Each adds its commands to the app.
    from rapgnn.cli import compare, data, hops, model, plan  # noqa: F401
    from rapgnn.cli.shared import app

    warnings.showwarning = _show_warning
    for entry in entry_points(group="rapgnn.commands"):  # those of other packages that are installed
        entry.load()
    app()


def _show_warning(message: Warning | str, category: type[Warning], *where: Any) -> None:
    """A notice of the library as one line; other warnings as Python writes them."""
    from rapgnn.cli.shared import say
    from rapgnn.errors import InputNotice

    say(str(message) if issubclass(category, InputNotice) else warnings.formatwarning(message, category, *where[:2]))


def _sentence(error: BaseException) -> tuple[str, int]:
    from rapgnn.cli.shared import with_flags
    from rapgnn.errors import InputError, OutputError

    if isinstance(error, InputError):
        return with_flags(str(error)), 1 if isinstance(error, OutputError) else 2
    if isinstance(error, OSError):
        return f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}.", 1
    if os.environ.get("RAPGNN_DEBUG"):
        raise error
    return f"internal error: {type(error).__name__}: {error} (set RAPGNN_DEBUG=1 for the traceback)", 1


def _watch_interrupts(pressed: list[int]) -> Any:
    """Note every Ctrl-C, whatever becomes of the exception; what was set before, None where nothing was changed."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # started so that it shall not listen
        return None

    def note(number: int, frame: object) -> NoReturn:
        pressed.append(number)
        if getattr(getattr(sys.modules.get("torch"), "__spec__", None), "_initializing", False):
            # C++ in there does not survive an exception; nothing is written before it is loaded.
            os.write(2, b"rapgnn: interrupted.\n")
            os._exit(INTERRUPTED)
        if hasattr(signal, "setitimer"):
            signal.signal(signal.SIGALRM, again)
            signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS, AGAIN_SECONDS)
        raise KeyboardInterrupt

    def again(number: int, frame: object) -> None:
        """Python drops an exception that is raised in a destructor: where none is on its way, raise another."""
        if sys.exc_info()[0] is None:
            raise KeyboardInterrupt

    return signal.signal(signal.SIGINT, note)


def _fail(sentence: str, code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.write(f"rapgnn: {sentence}\n")
    raise SystemExit(code)
