"""What the library knows of a tensor, whichever framework made it."""

from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from im2win._library import lib

CPU: int = lib.IM2WIN_CPU

DTYPE_CODES: dict[str, int] = {
    "float64": lib.IM2WIN_FLOAT64,
    "float32": lib.IM2WIN_FLOAT32,
    "float16": lib.IM2WIN_FLOAT16,
    "bfloat16": lib.IM2WIN_BFLOAT16,
}
# Makes a NamedTuple of a tuple in half the time that its own constructor takes. For what every call
# makes several of: new(View, (...)).
new = tuple.__new__

ITEMSIZES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "uint8": 1}


Shape = tuple[int, ...]
Axes = tuple[int, ...] | None  # None: as they are


class Framework(Protocol):
    """What makes tensors: how to look at them, and how to get memory and streams from it."""

    def view(self, tensor: Any, name: str, stream: int | None) -> "View":
        """A view of `tensor`, the argument called `name`, ready for use on `stream`."""

    def address(self, tensor: Any) -> int:
        """The address of the first element of a tensor that `empty` returned."""

    def empty(self, like: "View", shape: Shape, stream: int, axes: Axes = None) -> Any:
        """A new tensor, dense in memory as `shape` says, seen with its axes in order `axes`.

        Of the dtype and on the device of `like`, a tensor of this framework.
        """

    def empty_bytes(self, like: "View", size: int, stream: int) -> Any:
        """A new tensor of `size` bytes on the device of `like`."""

    def current_stream(self, device: int) -> int:
        """The handle of the stream on which the caller's work on `device` goes."""

    def using_stream(self, stream: int, device: int) -> AbstractContextManager[Any]:
        """Makes `stream` the current one, so that memory from `empty` is safe to use on it."""


class TensorSpec(NamedTuple):
    """All of a tensor but its data; hashable, as it is part of the plan cache's key."""

    shape: Shape
    strides: Shape  # in elements
    dtype: str
    device: int  # CPU, or a CUDA ordinal
    readonly: bool


class View(NamedTuple):
    """A tensor's memory, borrowed: `tensor` and `owner` are what keeps it alive."""

    address: int
    spec: TensorSpec
    framework: Framework
    tensor: Any
    owner: Any = None


def dtype_error(name: str, dtype: object) -> TypeError:
    return TypeError(f"{name} has dtype {dtype}, expected one of {', '.join(DTYPE_CODES)}")


def device_name(device: int) -> str:
    return "cpu" if device == CPU else f"cuda:{device}"


def parse_device(device: str) -> int:
    """The number of the device called "cpu", "cuda" (which is "cuda:0") or "cuda:1" and so on."""
    if not isinstance(device, str):
        raise TypeError(f"device is {device!r}, expected a string")
    kind, _, ordinal = device.partition(":")
    if device == "cpu":
        return CPU
    if kind != "cuda" or (":" in device and not ordinal.isdecimal()):
        raise ValueError(f'device is "{device}", expected "cpu", "cuda" or "cuda:0" and so on')
    return int(ordinal or 0)


def dense_strides(shape: Shape) -> Shape:
    """The strides, in elements, of a tensor of this shape with its last axis fastest."""
    strides: list[int] = []
    stride = 1
    for size in reversed(shape):
        strides.append(stride)
        stride *= max(size, 1)
    return tuple(reversed(strides))


def is_dense(shape: Shape, strides: Shape) -> bool:
    """Whether these are dense strides, up to those of axes along which nobody steps."""
    pairs = zip(shape, strides, dense_strides(shape), strict=True)
    return 0 in shape or all(size == 1 or stride == dense for size, stride, dense in pairs)
