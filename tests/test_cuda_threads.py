"""Threads, streams and devices that share the library on CUDA; plans made and destroyed."""

import gc
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import capi
import im2win
from cuda_call import problem_of
from frameworks import PROBLEM, TorchCase, arrays, convolve, cuda_cases, from_torch, to_torch
from im2win._dispatch import plan_for
from im2win._library import check, ffi, lib
from numerics import assert_convolved
from targets import CUDA

pytestmark = pytest.mark.gpu
THREADS, STREAMS = 16, 8


def in_threads(work: Any) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(work, thread) for thread in range(THREADS)]:
            done.result()


def test_threads_share_plans_and_streams(torch: Any) -> None:
    """Two threads a stream; all algorithms at once, their plans in the cache of conv2d."""
    cases = [TorchCase(*param.values) for param in cuda_cases()]
    streams = [torch.cuda.Stream() for _ in range(STREAMS)]
    torch.cuda.synchronize()

    def work(thread: int) -> None:
        order = np.random.default_rng(thread).integers(len(cases), size=100)
        with torch.cuda.stream(streams[thread % STREAMS]):
            wrong = [cases[i].differences(cases[i](cases[i].inputs[0])) for i in order]
            assert sum(each.item() for each in wrong) == 0

    in_threads(work)


def test_threads_fill_the_plan_cache(torch: Any) -> None:
    """With more problems than it holds, so that plans are dropped while others run them."""
    count = plan_for.cache_parameters()["maxsize"] * 5 // 4
    weight = torch.ones(3, 2, 3, 3, device="cuda")
    inputs = [torch.ones(1, 2, 3 + i % 7, 3 + i // 7, device="cuda") for i in range(count)]
    torch.cuda.synchronize()

    def work(thread: int) -> None:
        order = np.random.default_rng(thread).permutation(count)[: count // 4]
        with torch.cuda.stream(torch.cuda.Stream()):
            right = [(im2win.conv2d(inputs[i], weight) == 18).all() for i in order]
            assert all(each.item() for each in right)

    in_threads(work)


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_a_hundred_thousand_plans_leave_nothing_behind(torch: Any) -> None:
    """Of all algorithms and dtypes, by sixteen threads."""
    cases = [param.values for param in cuda_cases()]
    descs = [(capi.descriptor(problem_of(name), dtype), name) for name, dtype in cases]

    def make(count: int) -> None:
        def work(thread: int) -> None:
            plan = ffi.new("im2win_plan **")
            for i in range(count // THREADS):
                desc, name = descs[(i + thread) % len(descs)]
                check(lib.im2win_plan_create(desc, capi.plan_options(CUDA, name), plan))
                lib.im2win_plan_destroy(plan[0])

        in_threads(work)
        gc.collect()

    make(20_000)
    device = torch.cuda.mem_get_info()[0]  # makes PyTorch's context, which is in `host` then
    host = _resident_bytes()
    make(100_000)
    assert _resident_bytes() - host < 8 * 2**20
    assert device - torch.cuda.mem_get_info()[0] < 2**20


@pytest.fixture
def second(torch: Any) -> Any:
    if torch.cuda.device_count() < 2:
        pytest.skip("one CUDA device")
    return torch.device("cuda", 1)


def test_a_tensor_is_convolved_where_it_is(torch: Any, second: Any) -> None:
    """Whichever device is current, by each algorithm; the current one stays so."""
    for param in cuda_cases():
        case = TorchCase(*param.values)
        x, weight = (tensor.to(second) for tensor in (case.inputs[0], case.weight))
        for current in (0, 1):
            with torch.cuda.device(current):
                for given in ((case.inputs[0], case.weight), (x, weight)):
                    y = case(*given)
                    assert y.device == given[0].device
                    assert torch.cuda.current_device() == current
                    assert case.differences(y.to("cuda:0")).item() == 0


def test_tensors_of_two_devices_are_refused(torch: Any, second: Any) -> None:
    x, weight = (to_torch(array).cuda() for array in arrays(PROBLEM, "float32"))
    with pytest.raises(ValueError, match="weight is on cuda:1, expected cuda:0"):
        convolve(PROBLEM, x, weight.to(second))
    plan = capi.create_plan(capi.descriptor(PROBLEM), CUDA, "direct")
    there = capi.address(x.to(second).data_ptr())
    pointers = [there, capi.address(weight.data_ptr()), ffi.NULL, ffi.NULL, there]
    with pytest.raises(ValueError, match="on CUDA device 1: expected memory of device 0"):
        check(lib.im2win_conv2d(plan, *pointers, ffi.NULL, 0, ffi.NULL))


def test_threads_on_two_devices(torch: Any, second: Any) -> None:
    x, weight = (to_torch(array) for array in arrays(PROBLEM, "float32"))

    def work(thread: int) -> None:
        for i in range(50):
            device = f"cuda:{(thread + i) % 2}"
            y = convolve(PROBLEM, x.to(device), weight.to(device))
            assert_convolved(from_torch(y), from_torch(x), from_torch(weight), PROBLEM)

    in_threads(work)
