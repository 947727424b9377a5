"""Large tables of mostly zeros become sparse in one reading, as small ones do."""

import numpy as np
import pytest
import scipy.sparse as sp

from rapgnn.errors import InputError
from rapgnn.graph import validate
from rapgnn.graph.table import Encoding
from rapgnn.graph.validate import check_features, mostly_zeros
from rapgnn.sparse import SparseMatrix


@pytest.fixture(autouse=True)
def every_table_is_large(monkeypatch):
    monkeypatch.setattr(validate, "LARGE_TABLE", 1)
    monkeypatch.setattr(validate, "READ_AT_ONCE", 50)


def table(kind=np.float32, density=0.1):
    found = sp.random(40, 13, density=density, random_state=0, format="csr").toarray()
    return (9 * found).astype(kind)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, np.bool_])
@pytest.mark.parametrize("turned", [False, True])
def test_the_matrix_is_the_table(kind, turned):
    x = table(kind).T if turned else table(kind)
    found = mostly_zeros(x)
    assert found.dtype == np.float32
    assert np.array_equal(found.toarray(), x.astype(np.float32))
    features = check_features(x)
    assert isinstance(features, SparseMatrix)
    assert np.array_equal(features.scipy().toarray(), x.astype(np.float32))


def test_a_full_table_stays_one():
    assert mostly_zeros(table(density=0.6)) is None
    assert not isinstance(check_features(table(density=0.6)), SparseMatrix)


def test_infinite_entries_are_refused_all_the_same():
    x = table()
    x[3, 4] = np.nan
    with pytest.raises(InputError, match="1 NaN or infinite"):
        check_features(x)


def test_columns_of_different_size_are_found_in_either_form():
    x = table()
    assert Encoding.for_array(x, mostly_zeros(x)) is Encoding.for_array(x) is None
    x[:, 2] *= 1e4
    assert Encoding.for_array(x, mostly_zeros(x)) == Encoding.for_array(x) is not None
