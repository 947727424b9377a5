"""Python that Ctrl-C ends, also where the tests were started in the background, whose processes ignore the key."""

import subprocess
import sys

LISTENS = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)


def begin(*words: str, **options) -> subprocess.Popen:
    """``python WORDS`` in a session of its own, its errors in a pipe."""
    command = [sys.executable, "-c", LISTENS, *words]
    return subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True, **options)
