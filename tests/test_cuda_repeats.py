"""The same bits from a hundred runs of every algorithm, on any stream, with other work beside them
and behind a producer that still runs.
"""

from typing import Any

import pytest

from frameworks import TorchCase, cuda_cases

pytestmark = pytest.mark.gpu
AHEAD = 600_000_000  # clock cycles of work ahead, a third of a second


@pytest.mark.parametrize(("algorithm", "dtype"), cuda_cases())
def test_a_hundred_runs(torch: Any, algorithm: str, dtype: str) -> None:
    """While another stream keeps the device's arithmetic and memory busy."""
    case = TorchCase(algorithm, dtype)
    streams = [torch.cuda.Stream() for _ in range(8)]
    noise, big = torch.cuda.Stream(), torch.ones(4096, 4096, device="cuda", dtype=torch.bfloat16)
    torch.cuda.synchronize()
    with torch.cuda.stream(noise):
        for _ in range(60):
            big @ big
            big.clone()
    wrong = []
    for i in range(100):
        with torch.cuda.stream(streams[i % 8]):
            out = torch.full_like(case.expected[0], float("nan"))
            wrong.append(case.differences(case(case.inputs[0], out=out)))
    torch.cuda.synchronize()
    assert sum(each.item() for each in wrong) == 0


@pytest.mark.parametrize(("algorithm", "dtype"), cuda_cases())
def test_between_a_producer_and_those_who_come_after(
    torch: Any, algorithm: str, dtype: str
) -> None:
    """What it reads is made just before it, and spoilt just after it, on its stream."""
    case = TorchCase(algorithm, dtype)
    x, weight = (torch.full_like(t, float("nan")) for t in (case.inputs[0], case.weight))
    stream = torch.cuda.Stream()
    case.differences(case(case.inputs[0]))  # loads the kernels, for which the host may wait long
    torch.cuda.synchronize()
    for given in (None, stream):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(AHEAD)
            x.copy_(case.inputs[0])
            weight.copy_(case.weight)
            y = case(x, weight, stream=given)
            x.fill_(float("nan"))
            weight.fill_(float("nan"))
            wrong = case.differences(y)
            assert not stream.query()  # all of this was enqueued while the producer ran
        stream.synchronize()
        assert wrong.item() == 0
