"""Everything that is wrong with an input in one message, so that a user mends it in one go."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rapgnn.errors import InputError

MOST, LONGEST = 8, 1600  # faults that a message names, and its characters


class FaultsError(InputError):
    """Several faults in one line, separated by semicolons; ``faults`` has them all."""

    def __init__(self, faults: Sequence[str]):
        self.faults = tuple(faults)
        named, more = _without_repeats(self.faults[:MOST]), len(self.faults) - MOST
        super().__init__("; ".join([*named, *([f"and {more} more"] if more > 0 else [])]) + ".", LONGEST)


class Faults:
    """Collects what is refused, step by step; ``check`` refuses it all.

    Args:
        where: what every sentence begins with, such as the name of a file.
    """

    def __init__(self, where: str = "") -> None:
        self.where, self.found = where, list[str]()

    @contextmanager
    def collect(self) -> Iterator[None]:
        """A step whose refusal is kept for later; what needs its result must not run then."""
        try:
            yield
        except FaultsError as several:
            self.found += [f"{self.where}{fault}" for fault in several.faults]
        except InputError as error:
            self.found.append(f"{self.where}{str(error).rstrip('.')}")

    def check(self) -> None:
        """Raise where something was refused."""
        faults = list(dict.fromkeys(self.found))
        if len(faults) == 1:
            raise InputError(f"{faults[0]}.")
        if faults:
            raise FaultsError(faults)


def _without_repeats(faults: Sequence[str]) -> list[str]:
    """A file is named once, by the first of its faults in a row."""
    shortened, before = [], ""
    for fault in faults:
        file, colon, rest = fault.partition(": ")
        shortened.append(rest if colon and file == before else fault)
        before = file if colon else ""
    return shortened
