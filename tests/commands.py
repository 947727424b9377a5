"""Command lines that take a moment, and what a refusal looks like."""

import subprocess
import sys

QUICK = ["--seeds", "1", "--epochs", "3", "--set", "pretrain_epochs=3", "--hidden", "8", "--layers", "2"]
SBM = "sbm:nodes=200,classes=3,features=8,train=5,val=40,test=60"


def refused(result: tuple[int, str, str], *words: str) -> None:
    code, _, err = result
    lines = [line for line in err.splitlines() if line.strip() and "0:00:0" not in line]  # progress bars aside
    assert code == 2, err
    assert len(lines) == 1, err
    assert lines[0].startswith("rapgnn: ")
    assert lines[0].endswith(".")
    for word in words:
        assert word in lines[0]


LISTENS = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)


def begin(*words: str, **options) -> subprocess.Popen:
    """``python WORDS`` in a session of its own, its errors in a pipe."""
    command = [sys.executable, "-c", LISTENS, *words]
    return subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True, **options)
