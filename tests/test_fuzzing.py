"""The fuzz tests generate enough, and what judges their outcomes can fail."""

import time
import warnings

import pytest

from fuzzing import EXAMPLES, LONGEST, REFUSED, Tally, outcome
from rapgnn import InputError, InputNotice


def test_there_are_enough_examples():
    assert sum(EXAMPLES.values()) >= 2000


def refuse(sentence: str):
    def action():
        error = InputError()
        error.args = (sentence,)  # past the class, which would put the sentence right
        raise error

    return action


def test_an_answer_and_a_refusal_are_told_apart():
    assert outcome(lambda: 7) == 7
    assert outcome(lambda: warnings.warn("decided for you", InputNotice, stacklevel=1)) is None
    assert outcome(refuse("the input is wrong.")) is REFUSED


@pytest.mark.parametrize("sentence", ["", " ", "two\nlines.", "no full stop", "w" * LONGEST + "."])
def test_a_refusal_that_is_no_sentence_fails(sentence):
    with pytest.raises(AssertionError):
        outcome(refuse(sentence))


def test_any_other_exception_a_warning_or_a_hang_fails(monkeypatch):
    with pytest.raises(ZeroDivisionError):
        outcome(lambda: 1 / 0)
    with pytest.raises(RuntimeWarning):
        outcome(lambda: warnings.warn("overflow", RuntimeWarning, stacklevel=1))
    monkeypatch.setattr("fuzzing.SECONDS", 0.05)
    with pytest.raises(AssertionError, match="no answer"):
        outcome(lambda: time.sleep(5))


def test_a_tally_wants_both():
    tally = Tally()
    with pytest.raises(AssertionError):
        tally.check(accepted=0.0, refused=0.0)  # nothing was counted
    for found in (REFUSED, REFUSED, REFUSED, None):
        assert tally.count(found) is found
    tally.check(accepted=0.2, refused=0.7)
    with pytest.raises(AssertionError, match="1 of 4 accepted"):
        tally.check(accepted=0.3, refused=0.1)
    with pytest.raises(AssertionError, match="3 of 4 refused"):
        tally.check(accepted=0.1, refused=0.8)
