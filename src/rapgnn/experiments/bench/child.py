"""One measurement of memory in a process of its own: a request on standard input, the record on standard output.

python -m rapgnn.experiments.bench.child
"""

import json
import sys
import warnings

from rapgnn.experiments.bench.memory import load, peak_of


def main() -> int:
    """The command."""
    warnings.simplefilter("ignore")
    request = json.load(sys.stdin)
    print(json.dumps(peak_of(request, load(request))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
