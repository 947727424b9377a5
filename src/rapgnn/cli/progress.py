"""The progress bar of long work, on standard error."""

import contextlib
from collections.abc import Iterator
from typing import Any


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


@contextlib.contextmanager
def show_progress() -> Iterator[Track]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        track = Track(progress)
        yield track
        track.finish()
