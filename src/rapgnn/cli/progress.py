"""The progress of long work, on standard error: a bar on a terminal, a line now and then where output is piped."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

LINE_SECONDS = 10.0  # between two lines where there is no terminal
_quiet = False


def set_quiet(wanted: bool) -> bool:
    """Whether this command shall show neither progress nor notices."""
    global _quiet
    _quiet = wanted
    return wanted


def is_quiet() -> bool:
    """What ``set_quiet`` said."""
    return _quiet


class Track:
    """A progress bar of the current piece of work."""

    def __init__(self, progress: Any):
        self._progress, self._task = progress, None

    def start(self, title: str, total: int | None) -> None:
        self.finish()
        self._task = self._progress.add_task(title, total=total)

    def advance(self) -> None:
        self._progress.advance(self._task)

    def set(self, done: int, title: str) -> None:
        self._progress.update(self._task, completed=done, description=title)

    def finish(self) -> None:
        if self._task is not None:
            task = self._progress.tasks[self._task]
            total = task.completed if task.total is None else task.total
            self._progress.update(self._task, total=total, completed=total)


class LineTrack:
    """The same as lines: none for work that is done soon."""

    def __init__(self, write: Callable[[str], Any], clock: Callable[[], float] = time.monotonic):
        self._write, self._clock = write, clock
        self._title, self._total, self._done = "", None, 0
        self._begun = self._said = clock()

    def start(self, title: str, total: int | None) -> None:
        self._title, self._total, self._done = title, total, 0
        self._begun = self._said = self._clock()

    def advance(self) -> None:
        self.set(self._done + 1, self._title)

    def set(self, done: int, title: str) -> None:
        self._done, self._title, now = done, title, self._clock()
        if now - self._said >= LINE_SECONDS:
            self._said = now
            of = "" if self._total is None else f" of {self._total}"
            self._write(f"rapgnn: {title}: {done}{of}, {now - self._begun:.0f} s\n")

    def finish(self) -> None:
        """Nothing: what was done is printed by the command."""


@contextlib.contextmanager
def show_progress() -> Iterator[Any]:
    """A track: ``start`` a piece of work, ``advance`` it or ``set`` how far it is."""
    if _quiet:
        yield LineTrack(lambda line: None)
        return
    if not sys.stderr.isatty():
        yield LineTrack(lambda line: (sys.stderr.write(line), sys.stderr.flush()))
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        track = Track(progress)
        yield track
        track.finish()
