"""Where work runs: devices by name, threads that are given back, peak memory; what records say they were made with."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import rapgnn
from rapgnn import InputError, device
from rapgnn.device import SMALL_WORK, others_running, own_settings, pick_device, threads, threads_for
from rapgnn.memory import PeakAnonymous, PeakMemory, anonymous_bytes


def test_devices_by_name(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pick_device("cpu") == pick_device("auto") == "cpu"
    with pytest.raises(InputError, match="no CUDA device is available"):
        pick_device("cuda")
    with pytest.raises(InputError, match="'tpu' is unknown"):
        pick_device("tpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert pick_device("cuda") == pick_device("auto") == "cuda"
    assert pick_device("cpu") == "cpu"


def test_threads_are_given_back_even_after_an_error():
    before = torch.get_num_threads()

    def work() -> None:
        with threads(before + 1):
            assert torch.get_num_threads() == before + 1
            raise KeyError

    with pytest.raises(KeyError):
        work()
    assert torch.get_num_threads() == before


def test_little_work_has_one_thread():
    with threads(2):
        with threads_for(SMALL_WORK - 1):
            assert torch.get_num_threads() == 1
        with threads_for(SMALL_WORK):
            assert torch.get_num_threads() == 2


def test_where_other_work_has_the_cores_there_are_fewer_threads(tmp_path, monkeypatch):
    (tmp_path / "self/task/7").mkdir(parents=True)
    (tmp_path / "self/task/7/stat").write_text("7 (a name) R 1 7 0")
    for running, others in ((1, 0), (4, 3)):
        (tmp_path / "loadavg").write_text(f"0.1 0.2 0.3 {running}/99 7")
        assert others_running(tmp_path) == others
    assert others_running(tmp_path / "nowhere") == 0  # a system that does not tell
    cores = os.cpu_count() or 1
    for others, left in ((0, cores + 1), (1, max(1, cores - 1)), (5 * cores, 1)):
        monkeypatch.setattr(device, "others_running", lambda others=others: others)
        with threads(cores + 1):
            with own_settings():
                assert torch.get_num_threads() == left
            assert torch.get_num_threads() == cores + 1


ROOT = Path(__file__).resolve().parents[1]


def test_the_version_is_the_same_everywhere():
    assert re.fullmatch(r"\d+\.\d+\.\d+", rapgnn.__version__)
    (cited,) = re.findall(r"(?m)^version: (\S+)$", (ROOT / "CITATION.cff").read_text())
    assert cited == rapgnn.__version__
    released = rf"(?m)^## {re.escape(rapgnn.__version__)} - 20\d\d-\d\d-\d\d$"
    assert re.search(released, (ROOT / "CHANGELOG.md").read_text())


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
