"""Which worker holds which rows: ranges that follow one another and have about the same work."""

from bisect import bisect_left

import numpy as np

ROW_COST = 4  # a row without edges costs about as much as so many edges: it is read, kept and written


def row_bounds(indptr: np.ndarray, workers: int) -> np.ndarray:
    """``[workers + 1]``: worker w holds the rows from bounds[w] to bounds[w + 1]; some may hold none.

    Only a few entries of ``indptr`` are read, so that it may be a memory map larger than memory.

    Args:
        indptr: ``[n + 1]``, where each row's edges begin.
    """
    n = len(indptr) - 1

    def work_before(row: int) -> int:
        return int(indptr[row]) + ROW_COST * row

    total = work_before(n)
    bounds = [bisect_left(range(n + 1), total * w / workers, key=work_before) for w in range(workers)]
    return np.array([*bounds, n], dtype=np.int64)
