"""Categories as columns."""

import numpy as np
import pytest

from rapgnn import InputError
from rapgnn.datasets.categories import one_hot


def test_a_code_outside_the_encoders_range_is_refused():
    with pytest.raises(
        InputError, match="bond 1 has the value 7 in feature column 0, outside the encoder's range 0 to 4"
    ):
        one_hot(np.array([[0, 0, 0], [7, 0, 0]]), (5, 6, 2), "bond")
