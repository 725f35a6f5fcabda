"""A problem: tensors and options, checked against each other, as the C library's descriptor."""

from typing import Any, NamedTuple

from im2win._arguments import MATHS, Options, Window, activation, choice, integer, window
from im2win._library import check, ffi, lib
from im2win._tensors.spec import (
    DTYPE_CODES,
    Axes,
    Shape,
    TensorSpec,
    dense_strides,
    device_name,
    is_dense,
)

# The axes of a shape of this layout, in the order N C H W.
_AXES = {"NCHW": (0, 1, 2, 3), "NHWC": (0, 3, 1, 2)}
# The axes of a shape of this layout, in the other layout's order, with and without N.
_TO_OTHER = {
    "NCHW": {4: (0, 2, 3, 1), 3: (1, 2, 0)},
    "NHWC": {4: (0, 3, 1, 2), 3: (2, 0, 1)},
}


class Tensors(NamedTuple):
    """The tensors of one call; None where there is none."""

    input: TensorSpec
    weight: TensorSpec
    bias: TensorSpec | None
    residual: TensorSpec | None
    out: TensorSpec | None


class Output(NamedTuple):
    """The output: what the caller sees, and how to get it from dense memory."""

    shape: Shape
    strides: Shape
    memory_shape: Shape
    axes: Axes


def describe(tensors: Tensors, options: Options) -> tuple[Any, Output]:
    """The descriptor of a convolution, and its output.

    Errors: TypeError and ValueError that name the argument, its value and what was expected.
    """
    layout = options.layout
    _check_devices(tensors)
    _check_dtypes(tensors)
    desc = input_descriptor(tensors.input, layout)
    _set_weight(desc, tensors.weight, layout, integer("groups", options.groups))
    _set_bias(desc, tensors.bias)
    set_window(desc, window((desc.r, desc.s), options.stride, options.padding, options.dilation))
    desc.math = MATHS["fp32"] if options.math is None else choice("math", options.math, MATHS)
    desc.activation, desc.activation_params = activation(options.activation)
    output = _output(tensors, (desc.n, desc.k, *output_size(desc)), layout)
    _set_image(desc, "output", output.shape, output.strides, layout)
    if tensors.residual is not None:
        _check_shape("residual", tensors.residual.shape, output.shape)
        _set_image(desc, "residual", output.shape, tensors.residual.strides, layout)
        desc.has_residual = 1
    return desc, output


def input_descriptor(spec: TensorSpec, layout: Any) -> Any:
    """A new descriptor with all that the input says."""
    choice("layout", layout, _AXES)
    if len(spec.shape) not in (3, 4):
        batched, unbatched = ", ".join(layout), ", ".join(layout[1:])
        raise ValueError(
            f"input has shape {tuple(spec.shape)}, expected ({batched}) or ({unbatched})"
        )
    desc = ffi.new("im2win_conv2d_desc *")
    check(lib.im2win_conv2d_desc_init(desc, ffi.sizeof("im2win_conv2d_desc")))
    desc.dtype = DTYPE_CODES[spec.dtype]
    desc.n, desc.c, desc.h, desc.w = _set_image(desc, "input", spec.shape, spec.strides, layout)
    return desc


def set_window(desc: Any, geometry: Window) -> None:
    desc.stride_h, desc.stride_w = geometry.stride
    desc.dilation_h, desc.dilation_w = geometry.dilation
    (desc.padding_top, desc.padding_bottom), (desc.padding_left, desc.padding_right) = (
        geometry.padding
    )


def output_size(desc: Any) -> tuple[int, int]:
    """(P, Q), of a descriptor that is complete but for its output."""
    p, q = ffi.new("int64_t *"), ffi.new("int64_t *")
    check(lib.im2win_conv2d_output_size(desc, p, q))
    return p[0], q[0]


def _set_image(desc: Any, role: str, shape: Shape, strides: Shape, layout: str) -> Shape:
    """Sets the layout and strides of input, output or residual; returns its N C H W."""
    if 0 in shape:
        strides = dense_strides(shape)  # NumPy's are all 0
    if len(shape) == 3:
        whole = max(size * abs(stride) for size, stride in zip(shape, strides, strict=True))
        shape, strides = (1, *shape), (whole, *strides)
    setattr(desc, f"{role}_layout", lib.IM2WIN_STRIDED)
    setattr(desc, f"{role}_strides", [strides[axis] for axis in _AXES[layout]])
    return tuple(shape[axis] for axis in _AXES[layout])


def _set_weight(desc: Any, spec: TensorSpec, layout: str, groups: int) -> None:
    shape = tuple(spec.shape)
    expected = "(K, C / groups, R, S)" if layout == "NCHW" else "(K, R, S, C / groups)"
    if len(shape) != 4:
        raise ValueError(f"weight has shape {shape}, expected {expected}")
    desc.k, channels, desc.r, desc.s = (shape[axis] for axis in _AXES[layout])
    if channels * groups != desc.c:
        raise ValueError(
            f"weight has shape {shape}, expected {expected} with C / groups = "
            f"{desc.c} / {groups}, as the input has {desc.c} channels"
        )
    desc.groups = groups
    desc.filter_layout = lib.IM2WIN_STRIDED
    desc.filter_strides = [spec.strides[axis] for axis in _AXES[layout]]


def _set_bias(desc: Any, spec: TensorSpec | None) -> None:
    if spec is not None:
        _check_shape("bias", spec.shape, (desc.k,))
        desc.bias_dtype = DTYPE_CODES[spec.dtype]
        desc.bias_stride = spec.strides[0]


def _output(tensors: Tensors, nkpq: Shape, layout: str) -> Output:
    """The output as `out` is or, in memory order, as the input is."""
    nchw = _AXES[layout]
    shape = tuple(nkpq[nchw.index(axis)] for axis in range(4))[4 - len(tensors.input.shape) :]
    out = tensors.out
    if out is not None:
        _check_shape("out", out.shape, shape)
        if out.readonly:
            raise ValueError("out is read-only, expected a tensor that can be written to")
        return Output(shape, out.strides, shape, None)
    other = _TO_OTHER[layout][len(shape)]
    input_shape, input_strides = (
        tuple(values[axis] for axis in other)
        for values in (tensors.input.shape, tensors.input.strides)
    )
    if is_dense(tensors.input.shape, tensors.input.strides) or not is_dense(
        input_shape, input_strides
    ):
        return Output(shape, dense_strides(shape), shape, None)
    memory_shape = tuple(shape[axis] for axis in other)
    axes = tuple(other.index(axis) for axis in range(len(shape)))
    strides = dense_strides(memory_shape)
    return Output(shape, tuple(strides[axis] for axis in axes), memory_shape, axes)


def _check_shape(name: str, shape: Shape, expected: Shape) -> None:
    if tuple(shape) != expected:
        raise ValueError(f"{name} has shape {tuple(shape)}, expected {expected}")


def _check_devices(tensors: Tensors) -> None:
    device = tensors.input.device
    for name, spec in tensors._asdict().items():
        if spec is not None and spec.device != device:
            raise ValueError(
                f"{name} is on {device_name(spec.device)}, expected {device_name(device)}, "
                "where the input is"
            )


def _check_dtypes(tensors: Tensors) -> None:
    dtype = tensors.input.dtype
    for name, spec in tensors._asdict().items():
        wide_bias = name == "bias" and dtype in ("float16", "bfloat16")
        allowed = (dtype, "float32") if wide_bias else (dtype,)
        if spec is not None and spec.dtype not in allowed:
            raise TypeError(
                f"{name} has dtype {spec.dtype}, expected {' or '.join(allowed)}, as the input "
                f"has {dtype}"
            )
