"""The first problems of tests/soak.py, which runs ten thousand of them."""

import pytest

from numerics import DTYPES
from soak import Soak


@pytest.mark.parametrize("dtype", DTYPES)
def test_first_problems(dtype: str) -> None:
    soak = Soak("cpu")
    for seed in range(25):
        soak.try_problem(seed, dtype)
    for tally in soak.tallies.values():
        assert tally.problems > 5
        assert tally.isolated > 3
        assert (tally.wrong, tally.leaked) == (0, 0), tally
