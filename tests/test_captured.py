"""Captured work does what plain calls do."""

import gc
import weakref

import pytest
import torch

from rapgnn.captured import Captured, CapturedFunction
from rapgnn.prng import seeded

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


@pytest.mark.parametrize("device", DEVICES)
def test_work_runs_at_every_call(device: str) -> None:
    total = torch.zeros(3, device=device)
    work = Captured(lambda: total.add_(1.0), torch.device(device), warm_up=lambda: None)
    for _ in range(4):
        work()
    assert total.tolist() == [4.0] * 3


@pytest.mark.parametrize("device", DEVICES)
def test_random_numbers_go_on_from_call_to_call(device: str) -> None:
    def run(captured: bool) -> list[list[float]]:
        generator, drawn = seeded(1, 2, device), torch.zeros(5, device=device)

        def work() -> None:
            drawn.uniform_(generator=generator)

        call = Captured(work, torch.device(device), lambda: None, [generator]) if captured else work
        found = []
        for _ in range(3):
            call()
            found.append(drawn.tolist())
        return found

    assert run(True) == run(False)
    assert len({tuple(row) for row in run(True)}) == 3


@pytest.mark.parametrize("device", DEVICES)
def test_a_function_of_tensors(device: str) -> None:
    double = CapturedFunction(lambda given: {"y": 2 * given["x"]}, {"x": torch.zeros(3, device=device)})
    for value in (1.0, 5.0):
        found = double({"x": torch.full((3,), value, device=device)})
        assert found["y"].tolist() == [2 * value] * 3
    assert double.suits({"x": torch.ones(3)})
    assert not double.suits({"x": torch.ones(4)})


@pytest.mark.parametrize("device", DEVICES)
def test_memory_is_given_back_without_a_collection(device: str) -> None:
    class Big:
        def __init__(self) -> None:
            self.x = torch.zeros(3, device=device)
            x = self.x
            self.work = CapturedFunction(lambda given: {"y": x + given["x"]}, {"x": x})

    gc.disable()
    try:
        big = Big()
        gone = weakref.ref(big)
        del big
        assert gone() is None
    finally:
        gc.enable()


def test_an_error_in_the_work_comes_through() -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        Captured(fail, torch.device("cpu"), lambda: None)()
    assert gc.isenabled()
