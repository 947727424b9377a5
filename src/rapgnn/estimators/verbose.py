"""What an estimator says while it works, through Python's ``logging`` (the logger ``rapgnn``)."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from rapgnn.estimators.select import OnTrial, Settings

LOGGER = logging.getLogger("rapgnn")
_SHOWN = ("backbone", "num_layers", "jumping", "embedding", "head")


def logging_trials(then: OnTrial | None) -> OnTrial:
    """Log every candidate, then do what else was to be done."""
    count = 0

    def on_trial(settings: Settings, value: float) -> None:
        nonlocal count
        count += 1
        told = ", ".join(f"{name} {settings[name]}" for name in _SHOWN if name in settings)
        LOGGER.info("candidate %d: %.4f on validation (%s)", count, value, told)
        if then is not None:
            then(settings, value)

    return on_trial


@contextmanager
def shown(wanted: bool) -> Iterator[None]:
    """With ``wanted`` the log reaches the screen, also where the program has not set logging up."""
    if not wanted:
        yield
        return
    level, handler = LOGGER.level, None
    if not LOGGER.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("rapgnn: %(message)s"))
        LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOGGER.setLevel(level)
        if handler is not None:
            LOGGER.removeHandler(handler)
