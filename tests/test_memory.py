"""Peak memory of a piece of work."""

import pytest
import torch

from rapgnn.memory import PeakMemory

MEGABYTES = 96


def test_the_peak_is_that_of_the_work_and_not_of_what_was_there():
    there = torch.ones(MEGABYTES << 18)
    with PeakMemory() as nothing:
        pass
    with PeakMemory() as peak:
        work = torch.ones(MEGABYTES << 18)
        del work
    if peak.megabytes is None:
        pytest.skip("this system does not tell a process its peak memory")
    assert MEGABYTES * 0.9 < peak.megabytes < MEGABYTES * 1.5
    assert nothing.megabytes < MEGABYTES / 3
    assert float(there[0]) == 1.0  # it was there all the time
