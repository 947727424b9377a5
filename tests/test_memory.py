"""Peak memory of a piece of work."""

import numpy as np
import pytest
import torch

from rapgnn.memory import PeakAnonymous, PeakMemory, anonymous_bytes

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


def test_pages_of_a_file_do_not_count_and_arrays_do(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.ones(8 << 20))
    base = anonymous_bytes()
    if base is None:
        pytest.skip("this system does not tell")
    with PeakAnonymous(0.001) as mapped:
        assert np.load(path, mmap_mode="r").sum() == 8 << 20
    with PeakAnonymous(0.001) as held:
        held_array = np.ones(8 << 20)
    assert held_array.nbytes == 64 << 20
    assert mapped.bytes - base < 16 << 20
    assert held.bytes - base > 48 << 20
