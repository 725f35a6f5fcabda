"""The first problems of tests/soak.py, which runs ten thousand of them."""

import pytest

from numerics import DTYPES
from soak import Soak
from targets import DEVICES


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("device", DEVICES)
def test_first_problems(device: str, dtype: str) -> None:
    soak = Soak(device)
    for seed in range(25):
        soak.try_problem(seed, dtype)
    tallies = soak.tallies.values()
    assert sum(tally.problems for tally in tallies) > 25
    assert sum(tally.isolated for tally in tallies) > 15
    assert not any(t.wrong or t.leaked or t.outside for t in tallies), soak.tallies
