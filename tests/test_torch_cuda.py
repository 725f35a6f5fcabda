"""PyTorch on CUDA: its allocator, its current stream, CUDA graphs, more than 2^31 elements."""

from typing import Any

import numpy as np
import pytest

import im2win
from frameworks import PROBLEM, arrays, convolve, from_torch, to_torch
from numerics import DTYPES, assert_convolved
from problems import Problem, same
from targets import CUDA, NO_ALGORITHM
from tile_columns import COLUMNS

pytestmark = pytest.mark.gpu
ALGORITHMS = im2win.algorithms("cuda") or (NO_ALGORITHM,)
LONG = 500_000_000  # clock cycles of work ahead, a quarter of a second


def on_gpu(problem: Problem, dtype: str = "float32") -> tuple[Any, Any]:
    x, weight = (to_torch(array).cuda() for array in arrays(problem, dtype))
    return x, weight


@pytest.mark.parametrize("dtype", DTYPES)
def test_same_kind_dtype_device_and_order(torch: Any, dtype: str) -> None:
    x, weight = on_gpu(PROBLEM, dtype)
    y = convolve(PROBLEM, x, weight)
    assert type(y) is torch.Tensor
    assert (y.dtype, y.device) == (x.dtype, x.device)
    assert_convolved(from_torch(y), from_torch(x), from_torch(weight), PROBLEM)
    last = torch.channels_last
    y = convolve(PROBLEM, x.contiguous(memory_format=last), weight)
    assert y.is_contiguous(memory_format=last)
    assert_convolved(from_torch(y), from_torch(x), from_torch(weight), PROBLEM)


def test_memory_is_from_the_callers_allocator(torch: Any) -> None:
    x, weight = on_gpu(PROBLEM)
    before = torch.cuda.memory_allocated()
    y = convolve(PROBLEM, x, weight)
    assert torch.cuda.memory_allocated() >= before + y.nbytes
    del y
    assert torch.cuda.memory_allocated() == before


def convolve_late(torch: Any, work: Any, **options: Any) -> tuple[Any, Any, Any]:
    """A convolution of an input that is only there once the stream `work` has done a lot."""
    x, weight = on_gpu(PROBLEM)
    late = torch.full_like(x, float("nan"))
    torch.cuda.synchronize()
    with torch.cuda.stream(work):
        torch.cuda._sleep(LONG)
        late.copy_(x)
    y = convolve(PROBLEM, late, weight, **options)
    return x, weight, y


def test_runs_on_the_current_stream(torch: Any) -> None:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x, weight, y = convolve_late(torch, stream)
    stream.synchronize()
    assert_convolved(from_torch(y), from_torch(x), from_torch(weight), PROBLEM)


@pytest.mark.parametrize("as_handle", [False, True])
def test_runs_on_the_stream_that_it_is_given(torch: Any, as_handle: bool) -> None:
    stream = torch.cuda.Stream()
    given = stream.cuda_stream if as_handle else stream
    x, weight, y = convolve_late(torch, stream, stream=given)
    stream.synchronize()
    assert_convolved(from_torch(y), from_torch(x), from_torch(weight), PROBLEM)


def test_does_not_wait(torch: Any) -> None:
    """The call returns while the work ahead of it still runs."""
    stream = torch.cuda.Stream()
    convolve_late(torch, stream, stream=stream)  # now the plan is cached, the kernels loaded
    torch.cuda.synchronize()
    convolve_late(torch, stream, stream=stream)
    assert not stream.query()
    torch.cuda.synchronize()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_cuda_graph(torch: Any, algorithm: str) -> None:
    """Captured once, replayed with other inputs: the same bits as calls outside a graph."""
    x, weight = on_gpu(PROBLEM)
    other = torch.randn(x.shape, generator=torch.Generator().manual_seed(1)).cuda()
    options = {"algorithm": algorithm}
    try:
        expected = [convolve(PROBLEM, a, weight, **options) for a in (x, other)]
    except im2win.Im2winError as refusal:
        pytest.skip(str(refusal))
    static = x.clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = convolve(PROBLEM, static, weight, **options)
    for source, right in zip((x, other), expected, strict=True):
        static.copy_(source)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(y, right)


def test_wrong_device(torch: Any) -> None:
    x, weight = on_gpu(PROBLEM)
    out = torch.full(PROBLEM.output_shape, float("nan"))
    with pytest.raises(ValueError, match="weight is on cpu, expected cuda:0"):
        convolve(PROBLEM, x, weight.cpu())
    with pytest.raises(ValueError, match="out is on cpu, expected cuda:0"):
        convolve(PROBLEM, x, weight, out=out)
    assert out.isnan().all()


def test_a_second_device(torch: Any) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("one CUDA device")
    x, weight = (tensor.to("cuda:1") for tensor in on_gpu(PROBLEM))
    y = convolve(PROBLEM, x, weight)
    assert y.device == x.device
    assert torch.cuda.current_device() == CUDA
    assert_convolved(from_torch(y), from_torch(x), from_torch(weight), PROBLEM)


def test_device_arrays_go_on_by_dlpack(torch: Any) -> None:
    x, weight = on_gpu(PROBLEM)
    copies = [im2win.DeviceArray.from_numpy(from_torch(tensor)) for tensor in (x, weight)]
    y = torch.from_dlpack(convolve(PROBLEM, *copies))
    assert torch.equal(y, convolve(PROBLEM, x, weight))
    del copies
    torch.cuda.synchronize()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_more_than_two_to_the_31_elements(torch: Any, algorithm: str) -> None:
    """Indices of 32 bits would wrap round."""
    side = 46_352  # its square is just above 2^31
    if torch.cuda.mem_get_info()[0] < 40 * 2**30:
        pytest.skip("needs 40 GiB")
    x = torch.ones(1, 1, side, side, device="cuda")
    x[0, 0, -1, -2:] = torch.tensor([5.0, 7.0], device="cuda")
    weight = torch.full((1, 1, 1, 1), 3.0, device="cuda")
    try:
        y = im2win.conv2d(x, weight, algorithm=algorithm)
    except im2win.Im2winError as refusal:
        pytest.skip(str(refusal))
    assert y[0, 0, -1, -3:].tolist() == [3, 15, 21]
    assert torch.equal(y, 3 * x)


def test_error_leaves_the_device_usable(torch: Any) -> None:
    x, weight = on_gpu(PROBLEM)
    for _ in range(3):
        with pytest.raises(ValueError, match="stride_h is 0"):
            im2win.conv2d(x, weight, stride=0, groups=PROBLEM.groups)
    y = convolve(PROBLEM, x, weight)
    assert_convolved(from_torch(y), from_torch(x), from_torch(weight), PROBLEM)


@pytest.mark.parametrize("bias", [False, True])
def test_residual_in_place(torch: Any, bias: bool) -> None:
    problem = Problem(n=2, c=8, h=9, w=9, k=8, padding=same(1))
    x, weight = on_gpu(problem)
    shift = torch.arange(8.0, device="cuda") if bias else None
    residual = torch.ones_like(x)
    expected = im2win.conv2d(x, weight, shift, padding=1, residual=residual, activation="relu")
    y = im2win.conv2d(
        x, weight, shift, padding=1, residual=residual, activation="relu", out=residual
    )
    assert y is residual
    assert torch.equal(y, expected)
    assert np.isfinite(from_torch(y)).all()


def shifted(torch: Any, weight: Any) -> Any:
    """The same, in channels_last order, an element past where an allocation begins."""
    memory = torch.empty(weight.numel() + 1, dtype=weight.dtype, device=weight.device)[1:]
    k, c, r, s = weight.shape
    moved = memory.view(k, r, s, c).permute(0, 3, 1, 2)
    return moved.copy_(weight)


@pytest.mark.parametrize("is_aligned", [True, False], ids=["aligned", "shifted"])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("channels", [64, 120, 128])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_weight_of_neighbouring_channels(
    torch: Any, dtype: str, channels: int, groups: int, is_aligned: bool
) -> None:
    """Which `im2win_fused` may read where it is; small integers, whose sums are exact."""
    last = {"memory_format": torch.channels_last}
    generator = torch.Generator("cuda").manual_seed(7)
    shape = {"dtype": getattr(torch, dtype), "device": "cuda", "generator": generator}
    x = torch.randint(-2, 3, (3, groups * channels, 9, 11), **shape).contiguous(**last)
    weight = torch.randint(-2, 3, (groups * 136, channels, 3, 2), **shape).contiguous(**last)
    expected = torch.nn.functional.conv2d(x.double(), weight.double(), groups=groups, padding=1)
    used = weight if is_aligned else shifted(torch, weight)
    y = im2win.conv2d(x, used, groups=groups, padding=1, math="tf32")
    torch.testing.assert_close(y.double(), expected.to(y.dtype).double(), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("n", "size", "k"), [(1, 224, 128), (1, 224, 64), (3, 112, 128), (2, 232, 96)]
)
def test_rows_of_many_words(torch: Any, n: int, size: int, k: int, dtype: str) -> None:
    """Of which some warps of `im2win_fused` have registers for all theirs, some not; exactly."""
    generator = torch.Generator("cuda").manual_seed(7)
    shape = {"dtype": getattr(torch, dtype), "device": "cuda", "generator": generator}
    x = torch.randint(-2, 3, (n, 64, size, size), **shape)
    weight = torch.randint(-2, 3, (k, 64, 3, 3), **shape)
    expected = torch.nn.functional.conv2d(x.double(), weight.double(), stride=2, padding=1)
    y = im2win.conv2d(x, weight, stride=2, padding=1)
    torch.testing.assert_close(y.double(), expected.to(y.dtype).double(), rtol=0, atol=0)


@pytest.mark.parametrize("algorithm", [None, "im2win_fused", "im2win_fused_mma"])
@pytest.mark.parametrize("layout", ["contiguous_format", "channels_last"])
@pytest.mark.parametrize(
    ("n", "c", "size"),
    [(1, 512, 7), (4, 64, 20), (32, 512, 7), (32, 72, 12), (4, 63, 20), (4, 66, 20), (1, 514, 7)],
)
def test_tf32_is_rounded_not_cut_off(
    torch: Any, n: int, c: int, size: int, layout: str, algorithm: str | None
) -> None:
    """Each factor errs by 2.1e-4 in the mean square if it is rounded, and by twice that if not."""
    order = {"memory_format": getattr(torch, layout)}
    generator = torch.Generator("cuda").manual_seed(7)
    shape = {"device": "cuda", "generator": generator}
    x = torch.randn(n, c, size, size, **shape).contiguous(**order)
    weight = torch.randn(96, c, 3, 3, **shape).contiguous(**order)
    exact = torch.nn.functional.conv2d(x.double(), weight.double())
    y = im2win.conv2d(x, weight, algorithm=algorithm, math="tf32")
    assert float((y - exact).norm() / exact.norm()) < 3.2e-4


@pytest.mark.parametrize("layout", ["contiguous_format", "channels_last"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("problem", COLUMNS, ids=str)
def test_each_number_of_columns(torch: Any, problem: Problem, dtype: str, layout: str) -> None:
    """Small integers, whose sums are exact; the output is poisoned."""
    order = {"memory_format": getattr(torch, layout)}
    generator = torch.Generator("cuda").manual_seed(7)
    shape = {"dtype": getattr(torch, dtype), "device": "cuda", "generator": generator}
    x = torch.randint(-2, 3, problem.input_shape, **shape).contiguous(**order)
    weight = torch.randint(-2, 3, problem.weight_shape, **shape).contiguous(**order)
    window: dict[str, Any] = {"stride": problem.stride, "padding": problem.padding[0][0]}
    expected = torch.nn.functional.conv2d(x.double(), weight.double(), **window)
    y = torch.full_like(expected, float("nan"), dtype=x.dtype, **order)
    im2win.conv2d(x, weight, algorithm="im2win_fused", math="tf32", out=y, **window)
    torch.testing.assert_close(y.double(), expected.to(y.dtype).double(), rtol=0, atol=0)
