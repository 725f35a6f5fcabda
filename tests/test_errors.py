"""Bad arguments of conv2d: each is refused by name, with its value, before anything is written."""

from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import capi
import im2win
from numerics import Array, normal

NO_CUDA = im2win.info().no_cuda is not None


def zeros(*shape: int, dtype: Any = np.float32) -> Array:
    return np.zeros(shape, dtype)


def misaligned(array: Array) -> Array:
    """The same, one byte off the alignment of its elements."""
    memory = np.zeros(array.nbytes + 64, np.uint8)
    offset = -memory.ctypes.data % 64 + 1
    view: Array = memory[offset : offset + array.nbytes].view(array.dtype).reshape(array.shape)
    return view


def records(array: Array) -> Array:
    """Elements with a stride that is not a whole number of them."""
    fields = np.zeros(array.shape, [("value", array.dtype), ("flag", np.int8)])
    values: Array = fields["value"]
    return values


X, W = zeros(2, 4, 6, 7), zeros(6, 4, 3, 3)  # what is right; the output is (2, 6, 4, 5)

# What is wrong, the error, and what its message has to say.
WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"input": zeros(6, 7)}, ValueError, r"input has shape \(6, 7\)"),
    ({"input": zeros(1, 2, 4, 6, 7)}, ValueError, r"input has shape \(1, 2, 4, 6, 7\)"),
    ({"weight": zeros(4, 3, 3)}, ValueError, r"weight has shape \(4, 3, 3\)"),
    ({"bias": zeros(1, 6)}, ValueError, r"bias has shape \(1, 6\), expected \(6,\)"),
    ({"bias": zeros(5)}, ValueError, r"bias has shape \(5,\)"),
    ({"residual": zeros(2, 6, 4, 4)}, ValueError, r"residual has shape \(2, 6, 4, 4\)"),
    ({"residual": zeros(6)}, ValueError, r"residual has shape \(6,\)"),
    ({"input": zeros(2, 0, 6, 7), "weight": zeros(6, 0, 3, 3)}, ValueError, "c is 0"),
    ({"input": zeros(2, 4, 0, 7)}, ValueError, "h is 0"),
    ({"weight": zeros(0, 4, 3, 3)}, ValueError, "k is 0"),
    ({"weight": zeros(6, 4, 3, 0)}, ValueError, "s is 0"),
    # dtypes
    ({"weight": W.astype(np.float64)}, TypeError, "weight has dtype float64, expected float32"),
    ({"bias": zeros(6, dtype=np.float64)}, TypeError, "bias has dtype float64"),
    ({"bias": zeros(6, dtype=np.float16)}, TypeError, "bias has dtype float16"),
    ({"residual": zeros(2, 6, 4, 5, dtype=np.float16)}, TypeError, "residual has dtype float16"),
    ({"input": X.astype(np.int32)}, TypeError, "input has dtype int32, expected one of float64"),
    ({"input": X.astype(np.complex64)}, TypeError, "input has dtype complex64"),
    ({"input": X.astype(">f4")}, TypeError, "input has dtype >f4"),
    ({"input": X.astype(bool)}, TypeError, "input has dtype bool"),
    ({"input": np.ma.masked_array(X)}, TypeError, "input is a masked array"),
    ({"input": X.tolist()}, TypeError, "input is a list"),
    ({"weight": 3.0}, TypeError, "weight is a float"),
    ({"weight": None}, TypeError, "weight is a NoneType"),
    # channels and groups
    ({"weight": zeros(6, 3, 3, 3)}, ValueError, r"weight has shape \(6, 3, 3, 3\).* 4 channels"),
    ({"groups": 3, "weight": zeros(6, 1, 3, 3)}, ValueError, r"weight has shape.* 4 / 3"),
    ({"groups": 4, "weight": zeros(6, 1, 3, 3)}, ValueError, "groups is 4: .* k, which is 6"),
    ({"groups": 0}, ValueError, "groups is 0|4 / 0"),
    ({"groups": -1}, ValueError, "groups is -1|4 / -1"),
    ({"groups": 1.0}, TypeError, r"groups is 1\.0, expected an integer"),
    # the window
    ({"weight": zeros(6, 4, 7, 3)}, ValueError, "height is 7, .* the padded input's, 6"),
    ({"weight": zeros(6, 4, 3, 8)}, ValueError, "width is 8, .* the padded input's, 7"),
    ({"dilation": (3, 1)}, ValueError, "height is 3, 7 with dilation 3: .* 6"),
    ({"stride": 0}, ValueError, "stride_h is 0"),
    ({"stride": (1, -2)}, ValueError, "stride_w is -2"),
    ({"stride": (1, 2, 3)}, ValueError, r"stride is \(1, 2, 3\)"),
    ({"stride": ()}, ValueError, r"stride is \(\)"),
    ({"stride": 1.5}, TypeError, r"stride is 1\.5, expected an integer"),
    ({"stride": "2"}, TypeError, "stride is '2'"),
    ({"stride": 2**63}, ValueError, f"stride is {2**63}"),
    ({"dilation": 0}, ValueError, "dilation_h is 0"),
    ({"dilation": (1, -1)}, ValueError, "dilation_w is -1"),
    ({"dilation": 2**62}, ValueError, f"{2**62}"),
    ({"padding": -1}, ValueError, "padding_top is -1"),
    ({"padding": (0, -3)}, ValueError, "padding_left is -3"),
    ({"padding": ((0, 0), (0, -2))}, ValueError, "padding_right is -2"),
    ({"padding": (1, 2, 3)}, ValueError, r"padding is \(1, 2, 3\)"),
    ({"padding": ((1, 2), 3, 4)}, ValueError, "padding is"),
    ({"padding": "full"}, ValueError, 'padding is "full"'),
    ({"padding": "same", "stride": 2}, ValueError, 'padding is "same" with stride 2'),
    ({"padding": 2**63 - 1}, ValueError, f"{2**63 - 1}"),
    ({"padding": 2**61}, ValueError, "overflows"),
    # names
    ({"algorithm": "fft"}, ValueError, 'algorithm is "fft": expected one of .*direct'),
    ({"algorithm": 3}, TypeError, "algorithm is 3"),
    ({"math": "fp8"}, ValueError, "math is 'fp8', expected one of 'fp32'"),
    ({"layout": "CHWN"}, ValueError, "layout is 'CHWN', expected one of 'NCHW'"),
    ({"activation": "mish"}, ValueError, "activation is 'mish', expected one of 'relu'"),
    ({"activation": ("relu", 1)}, ValueError, r"activation is \('relu', 1\)"),
    ({"activation": ("clamp", 1)}, ValueError, "expected .*lower"),
    ({"activation": ("clamp", 2, 1)}, ValueError, "2, 1: expected the clamp's lower"),
    ({"workspace_limit": -1}, ValueError, "workspace_limit is -1"),
    ({"workspace_limit": 0.5}, TypeError, r"workspace_limit is 0\.5"),
    ({"device": "tpu"}, ValueError, 'device is "tpu"'),
    ({"device": 0}, TypeError, "device is 0"),
    ({"stream": "fast"}, TypeError, "stream is 'fast'"),
    ({"stream": -1}, TypeError, "stream is -1"),
    # memory
    ({"input": misaligned(X)}, ValueError, "input is 0x.*1: .* aligned to 4 bytes"),
    ({"weight": records(W)}, ValueError, "weight has strides of .* bytes"),
    # what one algorithm refuses
    (
        {"algorithm": "depthwise"},
        im2win.Im2winError,
        "algorithm depthwise takes one input channel a group, not 4",
    ),
    (
        {"algorithm": "im2win", "workspace_limit": 64},
        im2win.Im2winError,
        "workspace_limit_bytes is 64: algorithm im2win needs",
    ),
]


def _name(value: object) -> str:
    if not isinstance(value, dict):
        return ""
    return ",".join(
        f"{name}={'x'.join(map(str, v.shape)) if isinstance(v, np.ndarray) else v}"
        for name, v in value.items()
    )[:60]


@pytest.mark.parametrize(("change", "error", "message"), WRONG, ids=_name)
def test_wrong_arguments(change: dict[str, Any], error: type[Exception], message: str) -> None:
    dtype = change.get("input", X).dtype if hasattr(change.get("input", X), "dtype") else X.dtype
    supported = dtype.name in capi.DTYPE_CODES and dtype.isnative
    out = capi.poisoned((2, 6, 4, 5), dtype if supported else X.dtype)
    arguments = {"input": X, "weight": W, "out": out, **change}
    with pytest.raises(error, match=message):
        im2win.conv2d(**arguments)
    assert (out.view(np.uint8) == capi.POISON).all()


def test_statuses_of_errors_that_are_no_arguments() -> None:
    with pytest.raises(im2win.Im2winError) as refusal:
        im2win.conv2d(X, W, algorithm="depthwise")
    assert refusal.value.status == "IM2WIN_UNSUPPORTED"
    with pytest.raises(im2win.Im2winError) as limited:
        im2win.conv2d(X, W, algorithm="im2win", workspace_limit=0)
    assert limited.value.status == "IM2WIN_WORKSPACE_TOO_SMALL"


@pytest.mark.skipif(not NO_CUDA, reason="there is a CUDA device")
def test_no_cuda_device() -> None:
    with pytest.raises(im2win.Im2winError, match=r"CUDA|driver") as missing:
        im2win.conv2d(X, W, device="cuda")
    assert missing.value.status == "IM2WIN_NO_DEVICE"
    with pytest.raises(im2win.Im2winError, match=r"CUDA|driver"):
        im2win.Conv2dPlan(X.shape, W.shape, device="cuda:1")


def test_a_number_equal_to_the_right_one_is_still_of_the_wrong_type() -> None:
    """1.0 == 1, so a cache of plans must not find the plan of one for the other."""
    im2win.conv2d(X, W, stride=1, groups=1)
    with pytest.raises(TypeError, match="stride"):
        im2win.conv2d(X, W, stride=1.0, groups=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="groups"):
        im2win.conv2d(X, W, stride=1, groups=1.0)  # type: ignore[arg-type]


def _read_only() -> Array:
    out = zeros(2, 6, 4, 5)
    out.flags.writeable = False
    return out


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        (zeros(2, 6, 4, 4), ValueError, r"out has shape \(2, 6, 4, 4\), expected \(2, 6, 4, 5\)"),
        (zeros(6, 4, 5), ValueError, r"out has shape \(6, 4, 5\)"),
        (zeros(2, 6, 4, 5, dtype=np.float64), TypeError, "out has dtype float64"),
        (_read_only(), ValueError, "out is read-only"),
        (as_strided(zeros(60), (2, 6, 4, 5), (0, 4, 24, 4)), ValueError, "output_strides are"),
        (misaligned(zeros(2, 6, 4, 5)), ValueError, "output is 0x.*: .* aligned to 4 bytes"),
        ([1.0], TypeError, "out is a list"),
    ],
)
def test_wrong_out(out: Any, error: type[Exception], message: str) -> None:
    before = out.tobytes() if isinstance(out, np.ndarray) else b""
    with pytest.raises(error, match=message):
        im2win.conv2d(X + 1, W + 1, out=out)
    assert not isinstance(out, np.ndarray) or out.tobytes() == before


@pytest.mark.parametrize("name", ["input", "weight", "bias", "residual"])
def test_overlapping_out(name: str) -> None:
    """All shapes are (4, 4, 1, 1) or (4,), so that any tensor can lie across the output."""
    memory = normal((40,), "float32")
    before = memory.copy()
    arguments: dict[str, Any] = {
        "input": normal((4, 4, 1, 1), "float32", "x"),
        "weight": normal((4, 4, 1, 1), "float32", "w"),
    }
    shape = (4,) if name == "bias" else (4, 4, 1, 1)
    arguments[name] = memory[8 : 8 + int(np.prod(shape))].reshape(shape)
    with pytest.raises(ValueError, match=r"output at .* overlaps"):
        im2win.conv2d(**arguments, out=memory[11:27].reshape(4, 4, 1, 1))
    assert memory.tobytes() == before.tobytes()


@pytest.mark.parametrize("axis", range(4))
def test_interleaved_slices_do_not_overlap(axis: int) -> None:
    """Input and output may be slices of one buffer along any axis."""
    memory = normal((8, 8, 8, 8), "float32")
    halves = [
        tuple(slice(half, None, 2) if a == axis else slice(None) for a in range(4))
        for half in (0, 1)
    ]
    x, out = memory[halves[0]], memory[halves[1]]
    weight = normal((x.shape[1], x.shape[1], 3, 3), "float32")
    expected, x_before = im2win.conv2d(x.copy(), weight, padding=1), x.copy()
    result = im2win.conv2d(x, weight, padding=1, out=out)
    assert result is out
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(x, x_before)


def test_an_empty_batch_is_no_error() -> None:
    y = im2win.conv2d(zeros(0, 4, 6, 7), W, zeros(6))
    assert y.shape == (0, 6, 4, 5)
    assert y.dtype == np.float32
    out = zeros(0, 6, 4, 5)
    assert im2win.conv2d(zeros(0, 4, 6, 7), W, out=out, residual=out) is out
