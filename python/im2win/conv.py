"""conv2d: any tensor in, the same kind out."""

from collections.abc import Hashable
from functools import lru_cache
from typing import Any

import numpy as np

from im2win._arguments import Activation, Options, Padding, Pair, plain
from im2win._execution import Execution, prepare_call
from im2win._tensors.device_array import DeviceArray
from im2win._tensors.spec import CPU, parse_device

_PLANS = 1024  # kept, the least recently used of them going first

_plan_for = lru_cache(maxsize=_PLANS)(Execution)


def conv2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
    *,
    out: Any = None,
    algorithm: str | None = None,
    math: str | None = None,
    layout: str = "NCHW",
    activation: Activation = None,
    residual: Any = None,
    workspace_limit: int | None = None,
    stream: Any = None,
    device: str | None = None,
) -> Any:
    """activation(convolution of input with weight + residual + bias), as PyTorch's conv2d means it.

    Tensors are NumPy, PyTorch or CuPy ones, or any with DLPack or `__cuda_array_interface__`; all
    of one device and one dtype out of float64, float32, float16 and bfloat16, with any strides.
    They are neither copied nor, on CUDA, waited for.

    Args:
        input: (N, C, H, W) or (C, H, W).
        weight: (K, C / groups, R, S).
        bias: (K,), of the input's dtype, or float32 with 16-bit tensors.
        stride, dilation: for both dimensions, or (height, width).
        padding: of zeros: for all sides, (height, width), ((top, bottom), (left, right)),
            "valid" (none) or "same" (the output is as large as the input; stride 1 only).
        groups: divides C and K.
        out: the output, written and returned; overlaps no other tensor but may be the residual.
        algorithm: one of `algorithms(device)`; None is the best that takes the problem.
        math: for float32 tensors: "fp32" (the default: as accurate as a float32 dot product),
            "ieee" (every product and sum in IEEE float32) or "tf32" (inputs rounded to 10 bits).
        layout: how the shapes of input, out and residual are read; with "NHWC" they are
            (N, H, W, C), and weight's is (K, R, S, C / groups). It says nothing of memory.
        activation: relu, relu6, leaky_relu, silu, gelu, sigmoid, tanh or hardswish, or with its
            parameters ("leaky_relu", slope) or ("clamp", lower, upper).
        residual: of the output's shape and dtype.
        workspace_limit: a hard cap on extra memory, in bytes; None is no cap.
        stream: a handle or a stream of PyTorch, CuPy or CUDA Python; None is the current stream
            of the input's framework, the legacy default stream if it has none.
        device: for NumPy arrays: "cuda" or "cuda:1" copies them there and the output back.

    Returns:
        (N, K, P, Q) or (K, P, Q), of the input's kind, dtype, device and memory order (dense as the
        input's shape is, or channels last where only that is dense), from its framework's
        allocator. Where the framework is none of the three: a NumPy array or a DeviceArray.

    Raises:
        TypeError, ValueError: an argument is wrong; nothing is written.
        Im2winError: the algorithm refuses the problem, memory or the device fails.

    Safe to call from several threads. Gradients are not computed.
    """
    if not (stride.__class__ is padding.__class__ is dilation.__class__ is groups.__class__ is int):
        stride, padding = plain("stride", stride), plain("padding", padding)
        dilation, groups = plain("dilation", dilation), plain("groups", groups)
    options = Options(
        stride, padding, dilation, groups, algorithm, math, layout, activation, workspace_limit, 0
    )
    if device is not None and parse_device(device) != CPU:
        return _by_copies(input, weight, bias, residual, out, options, stream, device)
    if device is not None:
        _require_numpy(input, weight, bias, residual, out)
    return _convolve(input, weight, bias, residual, out, options, stream)


def _convolve(
    input: Any, weight: Any, bias: Any, residual: Any, out: Any, options: Options, stream: Any
) -> Any:
    call = prepare_call(input, weight, bias, residual, out, stream)
    specs = call.specs()
    try:
        plan = _plan_for(specs, options)
    except TypeError:  # what an argument without a hash raises, too
        hashable = Options(*map(_hashable, Options._fields, options))
        if hashable == options:
            raise
        plan = _plan_for(specs, hashable)
    return plan.run(call)


def _hashable(name: str, value: Any) -> Any:
    """The value, its lists as tuples, as a part of the plan cache's key."""
    if isinstance(value, (list, tuple)):
        return tuple(_hashable(name, item) for item in value)
    if not isinstance(value, Hashable):
        raise TypeError(f"{name} is {value!r}, of type {type(value).__name__}") from None
    return value


def _by_copies(
    input: Any,
    weight: Any,
    bias: Any,
    residual: Any,
    out: Any,
    options: Options,
    stream: Any,
    device: str,
) -> Any:
    """The convolution of NumPy arrays on a CUDA device."""
    _require_numpy(input, weight, bias, residual, out)

    def copy(array: Any) -> DeviceArray | None:
        return None if array is None else DeviceArray.from_numpy(array, device, stream)

    if out is not None and not out.flags.writeable:
        raise ValueError("out is read-only, expected an array that can be written to")
    copies = copy(input), copy(weight), copy(bias), copy(residual), copy(out)
    result = _convolve(*copies, options, stream).numpy()
    if out is None:
        return result
    np.copyto(out, result, casting="no")
    return out


def _require_numpy(*tensors: Any) -> None:
    for tensor in tensors:
        if tensor is not None and not isinstance(tensor, np.ndarray):
            raise TypeError(
                f"device is for NumPy arrays, not for {type(tensor).__name__}, which is computed "
                "on where it is"
            )
