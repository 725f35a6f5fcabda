"""The im2win tensor itself, element for element as the header defines it."""

from dataclasses import replace

import numpy as np
import pytest

import capi
import im2win
from capi import CPU
from im2win._library import check, ffi, lib
from numerics import Array, assert_convolved, convolution, integers, normal
from problems import GEOMETRY, PROBLEMS, Problem, same
from targets import CUDA, DEVICES

PROBLEM = Problem(n=2, c=5, h=7, w=9, r=3, s=2, stride=(2, 1), padding=((1, 2), (0, 3)))


def definition(x: Array, problem: Problem) -> Array:
    """T[n, c, p, x * R + r] = padded[n, c, p * stride_h + r * dilation_h, x]."""
    padded = np.pad(x, ((0, 0), (0, 0), *problem.padding))
    p = problem.output_shape[2]
    rows = [
        padded[:, :, r * problem.dilation[0] :: problem.stride[0]][:, :, :p]
        for r in range(problem.r)
    ]
    return np.stack(rows, axis=-1).reshape(problem.n, problem.c, p, padded.shape[3] * problem.r)


def transform(problem: Problem, x: Array, device: str) -> Array:
    """By the C ABI, into guarded memory."""
    ordinal = CPU if device == "cpu" else CUDA
    source = capi.Tensor(ordinal, x)
    desc = capi.descriptor(problem, x.dtype.name)
    capi.set_strides(desc, "input", source)
    size = ffi.new("size_t *")
    check(lib.im2win_transform_bytes(desc, size))
    target = capi.Memory(ordinal, np.full(size[0], capi.POISON, np.uint8))
    pointers = capi.address(source.address), capi.address(target.address)
    check(lib.im2win_transform(desc, ordinal, *pointers, size[0], ffi.NULL))
    assert source.read().tobytes() == x.tobytes()
    shape = definition(x, problem).shape
    result: Array = target.read().view(x.dtype).reshape(shape)
    return result


@pytest.mark.parametrize("problem", [p for p in PROBLEMS if p.products < 1e5], ids=str)
@pytest.mark.parametrize("device", DEVICES)
def test_equals_its_definition(device: str, problem: Problem) -> None:
    x = normal(problem.input_shape, "float32")
    np.testing.assert_array_equal(transform(problem, x, device), definition(x, problem))


@pytest.mark.parametrize("dtype", capi.DTYPE_CODES)
@pytest.mark.parametrize("device", DEVICES)
def test_moves_bits_and_computes_nothing(device: str, dtype: str) -> None:
    """Any bits, NaNs with their payloads among them."""
    size = int(np.prod(PROBLEM.input_shape)) * np.dtype(dtype).itemsize
    bits = np.random.default_rng(0).integers(0, 256, size, dtype=np.uint8)
    x = bits.view(dtype).reshape(PROBLEM.input_shape)
    assert transform(PROBLEM, x, device).tobytes() == definition(x, PROBLEM).tobytes()


@pytest.mark.parametrize("device", DEVICES)
def test_takes_any_strides(device: str) -> None:
    x = normal(PROBLEM.input_shape, "float32")
    channels_last = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    for view in (channels_last, x[:, ::-1, :, ::-1], np.broadcast_to(x[:1], x.shape)):
        np.testing.assert_array_equal(transform(PROBLEM, view, device), definition(view, PROBLEM))


@pytest.mark.parametrize(
    "problem",
    [p for p in GEOMETRY if p.dilation[1] == 1 and max(p.stride) < 100],
    ids=str,
)
def test_windows_lie_in_a_row(problem: Problem) -> None:
    """The paper's point: an output is a dot product with S * R consecutive elements."""
    x = normal(problem.input_shape, "float32")
    weight = normal(problem.weight_shape, "float32")
    tensor = transform(problem, x, "cpu").astype(np.float64)
    n, k, p, q = problem.output_shape
    window, step = problem.s * problem.r, problem.stride[1] * problem.r
    filters = weight.astype(np.float64).transpose(0, 1, 3, 2).reshape(k, problem.c, window)
    y = np.empty((n, k, p, q))
    for column in range(q):
        start = column * step
        seen = tensor[..., start : start + window]
        y[..., column] = np.einsum("ncpw,kcw->nkp", seen, filters)
    np.testing.assert_allclose(y, convolution(x, weight, problem), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", capi.DTYPE_CODES)
def test_python(dtype: str) -> None:
    x = integers(PROBLEM.input_shape, dtype)
    arguments = ((PROBLEM.r, PROBLEM.s), PROBLEM.stride, PROBLEM.padding, PROBLEM.dilation)
    expected = definition(x, PROBLEM)
    result = im2win.transform(x, *arguments)
    assert result.dtype == x.dtype
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(im2win.transform(x[0], *arguments), expected[0])
    by_layout = im2win.transform(
        np.ascontiguousarray(x.transpose(0, 2, 3, 1)), *arguments, layout="NHWC"
    )
    np.testing.assert_array_equal(by_layout, expected)


def test_python_takes_conv2ds_short_forms() -> None:
    problem = Problem(n=1, c=2, h=6, w=7, r=3, s=3, stride=(2, 2), padding=same(1))
    x = normal(problem.input_shape, "float32")
    expected = definition(x, problem)
    np.testing.assert_array_equal(im2win.transform(x, 3, 2, 1), expected)
    unit = replace(problem, stride=(1, 1))
    np.testing.assert_array_equal(im2win.transform(x, 3, padding="same"), definition(x, unit))


@pytest.mark.gpu
def test_python_answers_numpy_on_the_gpu_with_a_device_array() -> None:
    x = normal(PROBLEM.input_shape, "float32")
    window = (PROBLEM.r, PROBLEM.s)
    result = im2win.transform(
        im2win.DeviceArray.from_numpy(x), window, PROBLEM.stride, PROBLEM.padding
    )
    np.testing.assert_array_equal(result.numpy(), definition(x, PROBLEM))


def test_an_empty_batch_is_empty() -> None:
    assert im2win.transform(np.empty((0, 3, 5, 5), np.float32), 3).shape == (0, 3, 3, 15)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((np.zeros((2, 3), np.float32), 3), ValueError, r"input has shape \(2, 3\)"),
        ((np.zeros((1, 1, 4, 4), np.int32), 3), TypeError, "input has dtype int32"),
        ((np.zeros((1, 1, 4, 4), np.float32), 5), ValueError, "height is 5"),
        ((np.zeros((1, 1, 4, 4), np.float32), 0), ValueError, "r is 0"),
        ((np.zeros((1, 1, 4, 4), np.float32), (1, 2, 3)), ValueError, "kernel_size is"),
        ((np.zeros((1, 1, 4, 4), np.float32), 3, 0), ValueError, "stride_h is 0"),
        ((np.zeros((1, 1, 4, 4), np.float32), 3, 1, -1), ValueError, "padding_top is -1"),
        ((np.zeros((1, 1, 4, 4), np.float32), 3, 1, 0, 0), ValueError, "dilation_h is 0"),
    ],
)
def test_errors(arguments: tuple[object, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        im2win.transform(*arguments)  # type: ignore[arg-type]


def test_short_and_overlapping_output() -> None:
    x = normal(PROBLEM.input_shape, "float32")
    desc, size = capi.descriptor(PROBLEM), ffi.new("size_t *")
    check(lib.im2win_transform_bytes(desc, size))
    memory = capi.Memory(CPU, np.full(size[0], capi.POISON, np.uint8))
    source, target = capi.address(x.ctypes.data), capi.address(memory.address)
    for output, output_bytes, message in (
        (target, size[0] - 1, f"output_bytes is {size[0] - 1}"),
        (source, size[0], "overlaps"),
        (ffi.NULL, size[0], "output is NULL"),
    ):
        status = lib.im2win_transform(desc, CPU, source, output, output_bytes, ffi.NULL)
        assert status == lib.IM2WIN_INVALID_ARGUMENT
        assert message in ffi.string(lib.im2win_last_error()).decode()
    assert (memory.read() == capi.POISON).all()


def test_convolution_of_its_input_agrees() -> None:
    """That conv2d and transform mean the same by stride, padding and dilation."""
    problem = replace(PROBLEM, dilation=(2, 3))
    x, weight = normal(problem.input_shape, "float32"), normal(problem.weight_shape, "float32")
    y = im2win.conv2d(x, weight, None, problem.stride, problem.padding, problem.dilation)
    assert_convolved(y, x, weight, problem)
