"""Several processes on one study: they share nothing but its SQLite file, so any of them may die at any moment."""

import gc
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import torch

from rapgnn.experiments.tune.first import add_first_trial
from rapgnn.experiments.tune.study import SearchPlan
from rapgnn.experiments.tune.trials import confirmed, run_trials

POLL_SECONDS = 0.25


def run_workers(plan: SearchPlan, count: int, tell: Callable[[], None], say: Callable[[str], None]) -> None:
    """Start ``count`` processes and follow them until the last one ends.

    Args:
        tell: called now and then.
        say: told of a process that died.
    """
    context = multiprocessing.get_context("spawn")  # what every system has, and safe beside threads and CUDA
    with tempfile.TemporaryDirectory(prefix="rapgnn-") as temporary:
        # A file: tensors that are passed as such would lie in shared memory, which is scarce in containers, and bytes
        # in a pipe, where the start of a process waits until it has loaded its libraries and reads them.
        known = Path(temporary) / "plan"
        known.write_bytes(pickle.dumps(replace(plan, graph=plan.graph.to("cpu"))))
        shared = (str(known), str(plan.graph.y.device), count, max(1, torch.get_num_threads() // count))
        _follow(
            [context.Process(target=_worker, args=(*shared, n), daemon=True) for n in range(1, count + 1)], tell, say
        )


def _follow(processes: list[Any], tell: Callable[[], None], say: Callable[[str], None]) -> None:
    resource_tracker.ensure_running()  # which would take the block off that interrupts are put under
    try:
        with _holding_interrupts():
            for process in processes:
                process.start()
        running = processes
        while running:
            ended = multiprocessing.connection.wait([p.sentinel for p in running], POLL_SECONDS)
            for process in running:
                if process.sentinel in ended:
                    process.join()
                    if process.exitcode:
                        say(f"a worker died (exit code {process.exitcode}); another trial takes its place.")
            running = [p for p in running if p.sentinel not in ended]
            tell()
    finally:
        for process in processes:
            if process.pid is not None:
                process.terminate()
                process.join()


@contextmanager
def _holding_interrupts() -> Iterator[None]:
    """Ctrl-C waits until the end of this; processes started in here inherit that it is blocked, where systems can."""
    if threading.current_thread() is not threading.main_thread():  # only that one may say what signals do
        yield
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    _block(signal.SIGINT, True)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        _block(signal.SIGINT, False)
    if pressed:  # taken by another thread than this one
        raise KeyboardInterrupt


def _block(number: int, wanted: bool) -> None:
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK if wanted else signal.SIG_UNBLOCK, {number})


def _worker(known: str, device: str, count: int, threads: int, number: int) -> None:
    """What one process does: trials, then its share of the runs that decide among the best."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends its workers
    _block(signal.SIGINT, False)
    torch.set_num_threads(threads)
    gc.freeze()  # libraries stay loaded: the collection before every fit need not walk through them
    plan: SearchPlan = pickle.loads(Path(known).read_bytes())
    plan = replace(plan, graph=plan.graph.to(device))
    parent = multiprocessing.parent_process()

    def wanted() -> bool:
        return parent is None or parent.is_alive()

    try:
        study = plan.open()
        if number == 1:
            add_first_trial(plan, study)
        run_trials(plan, study, worker=number, wanted=wanted)
        # Trials that are still running elsewhere may change the order: what is left open the parent does.
        for trial in plan.best(study)[number - 1 :: count]:
            if wanted() and not plan.late:
                confirmed(plan, study, trial)
    except Exception as error:  # the parent meets the same error, and reports it
        sys.stderr.write(f"rapgnn: a worker stopped: {type(error).__name__}: {error}\n")
        sys.stderr.flush()
        os._exit(1)
