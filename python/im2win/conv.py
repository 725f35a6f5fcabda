"""conv1d, conv2d and conv3d: any tensor in, the same kind out."""

from typing import Any

from im2win._arguments import Activation, Options, Padding, PerAxis
from im2win._dispatch import convolve
from im2win._tensors.spec import new


def conv2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    *,
    out: Any = None,
    algorithm: str | None = None,
    math: str | None = None,
    layout: str = "NCHW",
    activation: Activation = None,
    residual: Any = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    workspace_limit: int | None = None,
    stream: Any = None,
    device: str | None = None,
) -> Any:
    """activation(alpha * convolution + beta * residual + bias), as PyTorch's conv2d means it.

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
        alpha, beta: numbers.
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
    geometry = (2, layout, stride, padding, dilation, groups)
    choices = (algorithm, math, activation, alpha, beta, workspace_limit, 0)
    options = new(Options, geometry + choices)
    return convolve(input, weight, bias, residual, out, options, stream, device)


def conv1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    *,
    out: Any = None,
    algorithm: str | None = None,
    math: str | None = None,
    layout: str = "NCW",
    activation: Activation = None,
    residual: Any = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    workspace_limit: int | None = None,
    stream: Any = None,
    device: str | None = None,
) -> Any:
    """The one-dimensional convolution: conv2d of an image of height 1, without copies.

    Keywords, tensors, result and errors are conv2d's, but for the shapes:

    Args:
        input: (N, C, W) or (C, W); the output is (N, K, Q) or (K, Q).
        weight: (K, C / groups, S).
        padding: an integer, `((left, right),)`, "valid" or "same".
        layout: "NCW", or "NWC", with which weight is (K, S, C / groups).
    """
    geometry = (1, layout, stride, padding, dilation, groups)
    choices = (algorithm, math, activation, alpha, beta, workspace_limit, 0)
    options = new(Options, geometry + choices)
    return convolve(input, weight, bias, residual, out, options, stream, device)


def conv3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    *,
    out: Any = None,
    algorithm: str | None = None,
    math: str | None = None,
    layout: str = "NCDHW",
    activation: Activation = None,
    residual: Any = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    workspace_limit: int | None = None,
    stream: Any = None,
    device: str | None = None,
) -> Any:
    """The three-dimensional convolution, a plane of the output at a time.

    Keywords, tensors, result and errors are conv2d's, but for the shapes:

    Args:
        input: (N, C, D, H, W) or (C, D, H, W); the output is (N, K, O, P, Q) or (K, O, P, Q).
        weight: (K, C / groups, T, R, S).
        padding: an integer, (depth, height, width), a pair of sides for each of the three,
            "valid" or "same".
        algorithm: of the two-dimensional convolutions that make the planes.
        layout: "NCDHW", or "NDHWC", with which weight is (K, T, R, S, C / groups).
        workspace_limit: counts copies, too: where they exceed it, the batch is split, and a limit
            below what one image needs is an error.

    A plane of the output is a two-dimensional convolution whose channels are all pairs of a channel
    and a tap of the depth, so that an output is rounded once, as in conv2d. Where one stride cannot
    step through these pairs, the T planes that a plane sees are copied, by the im2win transform,
    into N * H * W * C * T elements of extra memory, which all planes share.
    """
    geometry = (3, layout, stride, padding, dilation, groups)
    choices = (algorithm, math, activation, alpha, beta, workspace_limit, 0)
    options = new(Options, geometry + choices)
    return convolve(input, weight, bias, residual, out, options, stream, device)
