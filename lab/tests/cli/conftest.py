"""Commands of the laboratory."""

import pytest


@pytest.fixture(autouse=True)
def _own_cache(cache) -> None:
    """No command sees the cache of the person who runs the tests."""
