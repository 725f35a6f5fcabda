"""A problem: tensors and options, checked against each other, as the C library's descriptor."""

from typing import Any

from im2win._arguments import MATHS, Options, Window, activation, choice, integer, real, window
from im2win._library import check, ffi, lib
from im2win._native import new_desc
from im2win._shapes import (
    Output,
    Tensors,
    by_axis,
    check_dims,
    check_shape,
    check_tensors,
    check_weight,
    output_like,
)
from im2win._tensors.spec import DTYPE_CODES, Shape, TensorSpec


def describe(tensors: Tensors, options: Options) -> tuple[Any, Output]:
    """The descriptor of a convolution of one or two dimensions, and its output.

    Errors: TypeError and ValueError that name the argument, its value and what was expected.
    """
    check_tensors(tensors)
    layout = options.layout
    desc = input_descriptor(tensors.input, layout, options.dims)
    _set_weight(desc, tensors.weight, layout, integer("groups", options.groups))
    _set_bias(desc, tensors.bias)
    kernel_size = (desc.r, desc.s)[2 - options.dims :]
    set_window(desc, window(kernel_size, options.stride, options.padding, options.dilation))
    desc.math = MATHS["fp32"] if options.math is None else choice("math", options.math, MATHS)
    desc.alpha, desc.beta = real("alpha", options.alpha), real("beta", options.beta)
    desc.activation, desc.activation_params = activation(options.activation)
    height, width = output_size(desc)
    sizes = {"N": desc.n, "C": desc.k, "H": height, "W": width}
    output = output_like(tensors, sizes, layout)
    _set_image(desc, "output", output.shape, output.strides, layout)
    if tensors.residual is not None:
        _set_image(desc, "residual", output.shape, tensors.residual.strides, layout)
        desc.has_residual = 1
    return desc, output


def input_descriptor(spec: TensorSpec, layout: Any, dims: int = 2) -> Any:
    """A new descriptor with all that the input says."""
    check_dims(spec, layout, dims)
    desc = new_desc()
    desc.dtype = DTYPE_CODES[spec.dtype]
    desc.n, desc.c, desc.h, desc.w = _set_image(desc, "input", spec.shape, spec.strides, layout)
    return desc


def set_window(desc: Any, geometry: Window) -> None:
    """Of one dimension, the width, or two."""
    desc.stride_h, desc.stride_w = (1, *geometry.stride)[-2:]
    desc.dilation_h, desc.dilation_w = (1, *geometry.dilation)[-2:]
    (desc.padding_top, desc.padding_bottom), (desc.padding_left, desc.padding_right) = (
        (0, 0),
        *geometry.padding,
    )[-2:]


def output_size(desc: Any) -> tuple[int, int]:
    """(P, Q), of a descriptor that is complete but for its output."""
    p, q = ffi.new("int64_t *"), ffi.new("int64_t *")
    check(lib.im2win_conv2d_output_size(desc, p, q))
    return p[0], q[0]


def _set_image(desc: Any, role: str, shape: Shape, strides: Shape, layout: str) -> Shape:
    """Sets the layout and strides of input, output or residual; returns its N C H W."""
    sizes, steps = by_axis(shape, strides, layout, "NCHW")
    setattr(desc, f"{role}_layout", lib.IM2WIN_STRIDED)
    setattr(desc, f"{role}_strides", steps)
    return sizes


def _set_weight(desc: Any, spec: TensorSpec, layout: str, groups: int) -> None:
    check_weight(spec, layout, desc.c, groups)
    (desc.k, _, desc.r, desc.s), desc.filter_strides = by_axis(*spec[:2], layout, "NCHW")
    desc.groups = groups
    desc.filter_layout = lib.IM2WIN_STRIDED


def _set_bias(desc: Any, spec: TensorSpec | None) -> None:
    if spec is not None:
        check_shape("bias", spec.shape, (desc.k,))
        desc.bias_dtype = DTYPE_CODES[spec.dtype]
        desc.bias_stride = spec.strides[0]
