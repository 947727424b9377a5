"""Saves and loads of one folder at the same moment, and saves that are killed: a whole model is always there."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rapgnn import RAPNodeClassifier
from rapgnn.training.checkpoint import INDEX, load_checkpoint, save_checkpoint
from samples import FAST

KILLED = """
import os, sys
from pathlib import Path
from rapgnn.training.checkpoint import load_checkpoint, save_checkpoint
model, schema = load_checkpoint(Path(sys.argv[1]))
scratch, replace = Path(sys.argv[2]), Path.replace
for step in range(4):  # the save is killed just before its n-th renaming, or not at all
    folder, left = scratch / str(step), [step]
    pid = os.fork()
    if not pid:
        def killed(self, target):
            left[0] -= 1
            if left[0] < 0:
                os._exit(9)
            return replace(self, target)
        Path.replace = killed
        save_checkpoint(folder, model, schema)
        os._exit(0)
    os.waitpid(pid, 0)
"""


@pytest.fixture
def saved(small_graph, tmp_path) -> Path:
    """A folder with a model of an estimator."""
    RAPNodeClassifier(**FAST, num_layers=2).fit(small_graph).save(tmp_path / "first")
    return tmp_path / "first"


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def together(*tasks) -> None:
    """Run them at once; what one of them raises is raised."""
    barrier, failed = threading.Barrier(len(tasks)), []

    def run(task) -> None:
        barrier.wait()
        try:
            task()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def save_often(model: Path, target: Path, count: int, first: int):
    loaded, schema = load_checkpoint(model)

    def run() -> None:
        for n in range(count):
            loaded.draw_counter.fill_(first + n)
            save_checkpoint(target, loaded, schema)

    return run


def test_of_two_saves_at_once_one_wins_whole(saved, tmp_path):
    for pair in range(4):
        target = tmp_path / str(pair)
        together(save_often(saved, target, 3, 100), save_often(saved, target, 3, 200))
        model, _ = load_checkpoint(target)
        assert int(model.draw_counter) in (102, 202)
        assert len(files(target)) == 2


def test_a_load_while_a_save_is_going_on_gets_the_old_model_or_the_new_one(saved):
    done = threading.Event()

    def save() -> None:
        try:
            save_often(saved, saved, 40, 1000)()
        finally:
            done.set()

    def load() -> None:
        last = 0
        while not done.is_set():
            now = int(load_checkpoint(saved)[0].draw_counter)
            assert now >= last
            last = now if now >= 1000 else 0

    together(save, load)


def test_what_a_killed_first_save_left_is_cleaned_by_the_next(saved, tmp_path):
    words = [sys.executable, "-c", KILLED, str(saved), str(tmp_path / "scratch")]
    subprocess.run(words, check=True)
    model, schema = load_checkpoint(saved)
    left = [files(tmp_path / "scratch" / str(step)) for step in range(4)]
    assert [INDEX in names for names in left] == [False, False, True, True]  # killed, killed, and two that came through
    assert all(left)  # something was left behind each time
    for step in range(4):
        folder = tmp_path / "scratch" / str(step)
        save_checkpoint(folder, model, schema)
        assert int(load_checkpoint(folder)[0].draw_counter) == int(model.draw_counter)
        assert len(files(folder)) == 2


ENDLESS = """
import os, sys
from pathlib import Path
from rapgnn.training.checkpoint import load_checkpoint, save_checkpoint
folder = Path(sys.argv[1])
model, schema = load_checkpoint(folder)  # what the libraries take to load is paid once
for _ in sys.stdin:
    child = os.fork()
    if not child:
        while True:
            model.draw_counter += 1
            save_checkpoint(folder, model, schema)
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""


def test_a_killed_save_leaves_the_old_model_or_the_new_one(saved):
    """kill -9 at many moments of saving over and over: whatever is left loads."""
    counters = []
    command = [sys.executable, "-c", ENDLESS, str(saved)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        for attempt in range(6):
            process.stdin.write(b"save\n")
            child = int(process.stdout.readline())
            time.sleep(0.01 + 0.011 * attempt)
            os.kill(child, signal.SIGKILL)
            assert int(process.stdout.readline()) == signal.SIGKILL
            counters.append(int(load_checkpoint(saved)[0].draw_counter))
        process.stdin.close()
    assert max(counters) > 0  # some saves came to their end
