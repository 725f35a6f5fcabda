"""Tensors of NumPy and of PyTorch on the CPU: any of them in, the same kind out."""

from typing import Any

import numpy as np
import pytest

import im2win
from frameworks import PROBLEM, arrays, convolve, from_torch, to_torch
from numerics import DTYPES, assert_convolved, normal
from problems import SMALL, Problem, same


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy(dtype: str) -> None:
    x, weight = arrays(PROBLEM, dtype)
    y = convolve(PROBLEM, x, weight)
    assert type(y) is np.ndarray
    assert_convolved(y, x, weight, PROBLEM)
    out = np.full_like(y, np.nan)
    assert convolve(PROBLEM, x, weight, out=out) is out
    assert out.tobytes() == y.tobytes()


def test_read_only_inputs_are_fine() -> None:
    x, weight = arrays(PROBLEM, "float32")
    x.flags.writeable = weight.flags.writeable = False
    assert_convolved(convolve(PROBLEM, x, weight), x, weight, PROBLEM)


def test_padding_in_every_way_to_write_it() -> None:
    x, weight = normal((1, 2, 6, 7), "float32"), normal((3, 2, 2, 4), "float32")
    ways: list[tuple[Any, tuple[tuple[int, int], tuple[int, int]]]] = [
        (2, same(2)),
        ((1, 2), ((1, 1), (2, 2))),
        ([1, 2], ((1, 1), (2, 2))),
        (((0, 1), (2, 3)), ((0, 1), (2, 3))),
        ("valid", same(0)),
        ("same", ((0, 1), (1, 2))),
        (np.int64(1), same(1)),
    ]
    for padding, sides in ways:
        problem = Problem(c=2, k=3, r=2, s=4, padding=sides)
        assert_convolved(im2win.conv2d(x, weight, padding=padding), x, weight, problem)


@pytest.mark.parametrize("problem", SMALL, ids=str)
def test_torch_means_the_same_by_every_argument(problem: Problem) -> None:
    torch = pytest.importorskip("torch")
    if problem.n == 0 or max(problem.stride + problem.dilation) > 100:
        pytest.skip("not a problem for PyTorch")
    x, weight = (to_torch(array) for array in arrays(problem, "float64"))
    (top, bottom), (left, right) = problem.padding
    padded = torch.nn.functional.pad(x, (left, right, top, bottom))
    expected = torch.nn.functional.conv2d(
        padded, weight, None, problem.stride, 0, problem.dilation, problem.groups
    )
    y = convolve(problem, x, weight)
    torch.testing.assert_close(y, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    x, weight = arrays(PROBLEM, dtype)
    y = convolve(PROBLEM, to_torch(x), to_torch(weight))
    assert type(y) is torch.Tensor
    assert (y.dtype, y.device.type) == (getattr(torch, dtype), "cpu")
    assert_convolved(from_torch(y), x, weight, PROBLEM)
    out = torch.full_like(y, float("nan"))
    assert convolve(PROBLEM, to_torch(x), to_torch(weight), out=out) is out
    assert torch.equal(out, y)


def test_torch_memory_order() -> None:
    """Channels last in, channels last out; and views of any strides are read as they are."""
    torch = pytest.importorskip("torch")
    x, weight = arrays(PROBLEM, "float32")
    last = torch.channels_last
    y = convolve(PROBLEM, to_torch(x).contiguous(memory_format=last), to_torch(weight))
    assert y.is_contiguous(memory_format=last)
    assert not y.is_contiguous()
    assert_convolved(from_torch(y), x, weight, PROBLEM)
    view = to_torch(np.ascontiguousarray(x.transpose(3, 1, 0, 2))).permute(2, 1, 3, 0)
    y = convolve(PROBLEM, view, to_torch(weight))
    assert y.is_contiguous()
    assert_convolved(from_torch(y), x, weight, PROBLEM)


def test_torch_bias_residual_and_activation() -> None:
    torch = pytest.importorskip("torch")
    x, weight = (to_torch(a) for a in arrays(Problem(n=2), "float64"))
    bias, residual = torch.arange(4.0, dtype=x.dtype), torch.ones(2, 4, 4, 5, dtype=x.dtype)
    y = im2win.conv2d(x, weight, bias, residual=residual, activation="relu")
    expected = torch.relu(torch.nn.functional.conv2d(x, weight, bias) + residual)
    torch.testing.assert_close(y, expected, rtol=1e-12, atol=1e-12)


def test_torch_gradients_are_not_silently_lost() -> None:
    torch = pytest.importorskip("torch")
    x, weight = (to_torch(a) for a in arrays(Problem(), "float32"))
    layer = torch.nn.Parameter(weight)
    with pytest.raises(ValueError, match="weight requires grad"):
        im2win.conv2d(x, layer)
    with torch.no_grad():
        y = im2win.conv2d(x, layer)
    assert torch.equal(y, im2win.conv2d(x, layer.detach()))
    with pytest.raises(ValueError, match="input requires grad"):
        im2win.conv2d(x.clone().requires_grad_(), weight)


def test_torch_tensors_that_cannot_be_read_as_they_are() -> None:
    torch = pytest.importorskip("torch")
    weight = torch.zeros(4, 3, 3, 3)
    negative = torch.zeros(1, 3, 6, 7, dtype=torch.complex64).conj().imag
    wrong = [
        (torch.zeros(1, 3, 6, 7, dtype=torch.int32), TypeError, "input has dtype torch.int32"),
        (torch.zeros(1, 3, 6, 7).to_sparse(), TypeError, "input has layout torch.sparse"),
        (torch.zeros(1, 3, 6, 7, device="meta"), TypeError, "input is on device meta"),
        (negative, TypeError, "input has its negative bit set"),
    ]
    for x, error, message in wrong:
        with pytest.raises(error, match=message):
            im2win.conv2d(x, weight)


def test_device_is_for_numpy_alone() -> None:
    torch = pytest.importorskip("torch")
    x, weight = torch.zeros(1, 3, 6, 7), torch.zeros(4, 3, 3, 3)
    with pytest.raises(TypeError, match="device is for NumPy"):
        im2win.conv2d(x, weight, device="cpu")


def test_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comes in by DLPack, on whichever device JAX has; goes out as what DLPack can take."""
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # or it takes the whole GPU
    jax = pytest.importorskip("jax")
    x, weight = arrays(PROBLEM, "float32")
    y = convolve(PROBLEM, jax.numpy.asarray(x), jax.numpy.asarray(weight))
    assert isinstance(y, (np.ndarray, im2win.DeviceArray))
    assert_convolved(np.asarray(jax.dlpack.from_dlpack(y)), x, weight, PROBLEM)
