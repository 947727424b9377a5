"""The one exception that means "the input is at fault": the command line prints it as one sentence, exit code 2."""


class InputError(ValueError):
    """What was given, what is allowed, and what to do about it, in one sentence."""


def check_choice(name: str, value: str, allowed: object) -> None:
    """Raise unless ``value`` is one of ``allowed``, naming both."""
    names = list(allowed)  # type: ignore[call-overload]
    if value not in names:
        raise InputError(f"{name} {value!r} is unknown: choose one of {', '.join(names)}.")
