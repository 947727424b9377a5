"""No test of the datasets sees the cache of the person who runs it."""

import pytest


@pytest.fixture(autouse=True)
def _own_cache(cache) -> None:
    """An empty one instead."""
