"""GPU work that is launched as one piece: captured once, then replayed without the processor between its kernels."""

import contextlib
import gc
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor

from rapgnn.device import free_memory

Named = dict[str, Tensor]
_ONE_AT_A_TIME = threading.RLock()  # captures of several threads would get into each other's graphs


class Captured:
    """Work that runs again and again on the same tensors: one CUDA graph on a GPU, plain calls elsewhere.

    Args:
        work: what to do; it must not wait for the device, and its tensors must stay where they are.
        warm_up: runs the same kinds of kernels once, so that the libraries have what they need, and leaves no trace.
        generators: the random generators that ``work`` uses; they go on from replay to replay as in plain calls.
    """

    seconds = 0.0  # that all captures have taken, so that a clock can leave them out

    def __init__(
        self,
        work: Callable[[], None],
        device: torch.device,
        warm_up: Callable[[], None],
        generators: Sequence[torch.Generator] = (),
    ):
        self._work = work
        self._graph: torch.cuda.CUDAGraph | None = None
        if device.type == "cuda":
            torch.cuda.synchronize(device)
            start = time.perf_counter()
            with torch.cuda.device(device):
                self._graph = _capture(work, warm_up, generators)
            torch.cuda.synchronize(device)
            Captured.seconds += time.perf_counter() - start

    def __call__(self) -> None:
        if self._graph is None:
            self._work()
        else:
            self._graph.replay()


class CapturedFunction:
    """A function of tensors as captured work: inputs are copied to where it reads them.

    Args:
        function: of tensors by name; it must not hold on to whoever keeps this object, or both outlive their use.
        inputs: like those of every later call.
    """

    def __init__(self, function: Callable[[Named], Named], inputs: Named):
        self.inputs = {name: value.clone() for name, value in inputs.items()}
        self.outputs: Named = {}
        reads, writes = self.inputs, self.outputs
        self._work = Captured(
            lambda: writes.update(function(reads)),
            next(iter(inputs.values())).device,
            warm_up=lambda: writes.update(function(reads)),
        )

    def suits(self, inputs: Named) -> bool:
        """Whether these have the shapes it was captured for."""
        return all(inputs[name].shape == place.shape for name, place in self.inputs.items())

    @torch.no_grad()
    def __call__(self, inputs: Named) -> Named:
        """The results, which are overwritten by the next call."""
        for name, place in self.inputs.items():
            place.copy_(inputs[name])
        self._work()
        return self.outputs


def _capture(
    work: Callable[[], None], warm_up: Callable[[], None], generators: Sequence[torch.Generator]
) -> torch.cuda.CUDAGraph:
    graph, side, current = (
        torch.cuda.CUDAGraph(),
        _side_stream(torch.cuda.current_device()),
        torch.cuda.current_stream(),
    )
    for generator in generators:
        graph.register_generator_state(generator)
    side.wait_stream(current)
    with _ONE_AT_A_TIME, torch.cuda.stream(side), _no_collection():
        warm_up()
        # A capture cannot use memory that is free but reserved: where that is much of what there is, it is given back.
        unused = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        if unused > free_memory() // 4:
            side.synchronize()
            torch.cuda.empty_cache()
        # Other threads of a program may use the GPU meanwhile.
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            work()
        except BaseException:
            with contextlib.suppress(RuntimeError):
                graph.capture_end()
            raise
        graph.capture_end()
    current.wait_stream(side)
    return graph


@cache
def wake_backward(device: torch.device) -> None:
    """Let the thread that computes gradients find the GPU, once; else torch warns when a matrix product comes first."""
    if device.type == "cuda":
        with torch.enable_grad():
            torch.zeros(1, device=device, requires_grad=True).mul(2.0).sum().backward()


@cache
def _side_stream(device: int) -> torch.cuda.Stream:
    """One for all captures: a library keeps memory of its own for every stream it has met."""
    return torch.cuda.Stream(device)


@contextmanager
def _no_collection() -> Iterator[None]:
    """No garbage collection: one that met an older graph would destroy it, which nothing may do during a capture."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()
