"""Where work runs: devices by name, threads that are given back."""

import pytest
import torch

from rapgnn import InputError
from rapgnn.device import SMALL_WORK, pick_device, threads, threads_for


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
