"""CuPy arrays; CuPy itself is never imported, as whoever has an array has done that."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from im2win._tensors.numpy_arrays import dtype_name, element_strides
from im2win._tensors.spec import Axes, Shape, TensorSpec, View, new


class _ExternalStream:
    """A stream handle by the CUDA stream protocol."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


class CuPyFramework:
    """cupy.ndarray, from CuPy's current allocator."""

    def __init__(self) -> None:
        self._cupy: Any = sys.modules["cupy"]
        self._current_device = self._cupy.cuda.runtime.getDevice

    def view(self, tensor: Any, name: str, stream: int | None) -> View:
        dtype = dtype_name(name, tensor.dtype)
        strides = element_strides(name, tensor.strides, dtype)
        memory = tensor.data
        spec = new(TensorSpec, (tensor.shape, strides, dtype, memory.device_id, False))
        return new(View, (memory.ptr, spec, self, tensor, None))

    def address(self, tensor: Any) -> int:
        return int(tensor.data.ptr)

    def empty(self, like: View, shape: Shape, stream: int, axes: Axes = None) -> Any:
        array = self._empty(shape, like.tensor.dtype, like.spec.device)
        return array if axes is None else array.transpose(axes)

    def empty_bytes(self, like: View, size: int, stream: int) -> Any:
        return self._empty(size, "uint8", like.spec.device)

    def _empty(self, shape: Shape | int, dtype: Any, device: int) -> Any:
        if self._current_device() == device:
            return self._cupy.empty(shape, dtype)
        with self._cupy.cuda.Device(device):
            return self._cupy.empty(shape, dtype)

    def current_stream(self, device: int) -> int:
        if self._current_device() == device:
            return int(self._cupy.cuda.get_current_stream().ptr)
        with self._cupy.cuda.Device(device):
            return int(self._cupy.cuda.get_current_stream().ptr)

    @contextmanager
    def using_stream(self, stream: int, device: int) -> Iterator[None]:
        cuda = self._cupy.cuda
        with cuda.Device(device):
            if hasattr(cuda.Stream, "from_external"):
                external = cuda.Stream.from_external(_ExternalStream(stream))
            else:  # before CuPy 14
                external = cuda.ExternalStream(stream, device)
            with external:
                yield
