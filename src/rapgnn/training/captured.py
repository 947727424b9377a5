"""GPU work that is launched as one piece: captured once, then replayed without the processor between its kernels."""

from collections.abc import Callable, Sequence

import torch


class Captured:
    """Work that runs again and again on the same tensors: one CUDA graph on a GPU, plain calls elsewhere.

    Args:
        work: what to do; it must not wait for the device, and its tensors must stay where they are.
        warm_up: runs the same kinds of kernels once, so that the libraries have what they need, and leaves no trace.
        generators: the random generators that ``work`` uses; they go on from replay to replay as in plain calls.
    """

    def __init__(
        self,
        work: Callable[[], None],
        device: torch.device,
        warm_up: Callable[[], None],
        generators: Sequence[torch.Generator] = (),
    ):
        self._work = work
        self._graph: torch.cuda.CUDAGraph | None = None
        if device.type != "cuda":
            return
        with torch.cuda.device(device):
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                warm_up()
            torch.cuda.current_stream().wait_stream(side)
            self._graph = torch.cuda.CUDAGraph()
            for generator in generators:
                self._graph.register_generator_state(generator)
            # Other threads of a program may use the GPU meanwhile.
            with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
                work()

    def __call__(self) -> None:
        if self._graph is None:
            self._work()
        else:
            self._graph.replay()
