"""The im2win tensor itself."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from im2win._arguments import Padding, PerAxis, per_axis, window
from im2win._library import check, ffi, lib
from im2win._problem import input_descriptor, output_size, set_window
from im2win._tensors import view
from im2win._tensors.spec import View
from im2win._tensors.stream import stream_handle


def transform(
    input: Any,
    kernel_size: PerAxis,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    *,
    layout: str = "NCHW",
    stream: Any = None,
) -> Any:
    """The im2win tensor of the input: its rows in the order in which windows read them.

    With x counting the columns of the padded input and r the rows of the window,

        T[n, c, p, x * R + r] = padded[n, c, p * stride_h + r * dilation_h, x]

    Args:
        input: (N, C, H, W) or (C, H, W), or as layout has it; as conv2d's.
        kernel_size: (R, S), or one number for both.
        stride, padding, dilation, layout, stream: as conv2d's.

    Returns:
        Dense (N, C, P, (W + padding) * R) or (C, P, ...), whatever the layout; of the input's kind,
        dtype and device.

    Errors and thread-safety: as conv2d's.
    """
    handle = None if stream is None else stream_handle(stream)
    source = view(input, "input", handle)
    framework, device = source.framework, source.spec.device
    desc = input_descriptor(source.spec, layout)
    desc.k, (desc.r, desc.s) = 1, per_axis("kernel_size", kernel_size, 2)
    set_window(desc, window((desc.r, desc.s), stride, padding, dilation))
    height, _ = output_size(desc)
    width = (desc.w + desc.padding_left + desc.padding_right) * desc.r
    shape = (desc.n, desc.c, height, width)[4 - len(source.spec.shape) :]
    if handle is None:
        handle = framework.current_stream(device)
        memory_for_stream: AbstractContextManager[Any] = nullcontext()
    else:
        memory_for_stream = framework.using_stream(handle, device)
    with memory_for_stream:
        output = framework.empty(source, shape, handle)
        _write(desc, source, output, handle)
    return output


def _write(desc: Any, source: View, output: Any, stream: int) -> None:
    size = ffi.new("size_t *")
    check(lib.im2win_transform_bytes(desc, size))
    addresses = (source.address, source.framework.address(output))
    pointers = (ffi.cast("void *", address) for address in addresses)
    handle = ffi.cast("void *", stream)
    check(lib.im2win_transform(desc, source.spec.device, *pointers, size[0], handle))
