"""What is said about a user's input: the exception that refuses it, and the warning of what was decided for the user.

The command line prints the exception as one sentence, exit code 2; where the disk is at fault, exit code 1.
"""

import sys
import warnings


class InputError(ValueError):
    """What was given, what is allowed, and what to do about it, in one sentence.

    Args:
        longest: characters of the sentence; what a user gave, and the sentence quotes, may be of any length.
    """

    def __init__(self, sentence: str = "the input is at fault.", longest: int = 400):
        super().__init__(_one_line(sentence, longest))


class OutputError(InputError):
    """A file that could not be written although its name is right: the disk is full or fails."""


class InputNotice(UserWarning):
    """Something was decided for the user on the way in: features or a split that were not given."""


def notice(sentence: str) -> None:
    """Warn of something decided for the user, at the line of theirs that called the library."""
    level, frame = 1, sys._getframe()
    between = ("rapgnn", "sklearn", "torch", "contextlib")  # packages that stand between that line and this one
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in between:
        level, frame = level + 1, frame.f_back
    warnings.warn(sentence, InputNotice, stacklevel=level)


def check_choice(name: str, value: object, allowed: object) -> None:
    """Raise unless ``value`` is one of ``allowed``, naming both."""
    names = list(allowed)  # type: ignore[call-overload]
    if not isinstance(value, str) or value not in names:
        raise InputError(f"{name} {shown(value)} is unknown: choose one of {', '.join(names)}.")


def shown(value: object, most: int = 60) -> str:
    """A value as a sentence quotes it, the middle left out where it is long."""
    try:
        text = repr(value)
    except ValueError:  # a whole number of thousands of digits
        text = f"a value of type {type(value).__name__}"
    return _shortened(text, most)


def _one_line(sentence: str, longest: int) -> str:
    """Without line breaks and unprintable characters, which a file's contents may bring in, and not too long."""
    printable = "".join(c if c.isprintable() else " " for c in str(sentence))
    return _shortened(" ".join(printable.split()), longest)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - most // 3 - 5]} ... {text[-(most // 3) :]}"
