"""CUDA memory for callers who have no framework of their own for it."""

import math
from typing import Any

import numpy as np

from im2win._library import check, ffi, lib
from im2win._tensors.dlpack import CUDA, make_capsule
from im2win._tensors.numpy_arrays import dtype_name, numpy_dtype
from im2win._tensors.spec import ITEMSIZES, Axes, Shape, dense_strides, parse_device
from im2win._tensors.stream import stream_handle


class DeviceArray:
    """A dense array in CUDA memory, which it owns; uninitialised when new.

    What conv2d returns for CUDA tensors of frameworks that it cannot allocate with, such as Numba
    and JAX. It goes on as DLPack (`jax.dlpack.from_dlpack(array)`, `torch.from_dlpack(array)`) or
    by `__cuda_array_interface__` (Numba), without a copy, and to the host by `numpy()`.

    Its content is made on `stream`, and its memory returns to the device in that stream's order:
    work with it on other streams must be done before the last reference to it goes.

    Attributes:
        shape: sizes.
        strides: in bytes, as NumPy's.
        dtype: "float64", "float32", "float16" or "bfloat16".
        device: CUDA ordinal.
        stream: handle of the stream; 0 is the legacy default stream.
        address: of the first element; 0 if there is none.
    """

    def __init__(
        self, shape: Shape, dtype: str, device: int = 0, stream: int = 0, axes: Axes = None
    ) -> None:
        """Memory that is dense as `shape` says, seen with its axes in order `axes`.

        Errors: OutOfMemoryError, Im2winError.
        """
        axes = axes or tuple(range(len(shape)))
        self.dtype, self.device, self.stream = dtype, device, stream
        self.shape = tuple(shape[axis] for axis in axes)
        dense = dense_strides(shape)
        self.strides = tuple(dense[axis] * ITEMSIZES[dtype] for axis in axes)
        self._pointer = _allocate(self.nbytes, device, stream)
        self.address = int(ffi.cast("uintptr_t", self._pointer))

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * ITEMSIZES[self.dtype]

    @classmethod
    def from_numpy(
        cls, array: np.ndarray[Any, Any], device: str = "cuda", stream: Any = None
    ) -> "DeviceArray":
        """A copy of a NumPy array, in the same order in memory; waits until it is done."""
        handle = 0 if stream is None else stream_handle(stream)
        fastest_last = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
        source = np.ascontiguousarray(array.transpose(fastest_last))
        axes = tuple(fastest_last.index(axis) for axis in range(array.ndim))
        name = dtype_name("array", array.dtype)
        copy = cls(source.shape, name, parse_device(device), handle, axes)
        copy._copy(copy._pointer, ffi.cast("void *", source.ctypes.data))
        return copy

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy in host memory, in the same order in memory; waits for the stream."""
        fastest_last = sorted(range(len(self.shape)), key=lambda axis: -self.strides[axis])
        shape = [self.shape[axis] for axis in fastest_last]
        target: np.ndarray[Any, Any] = np.empty(shape, numpy_dtype(self.dtype))
        self._copy(ffi.cast("void *", target.ctypes.data), self._pointer)
        target = target.transpose([fastest_last.index(axis) for axis in range(target.ndim)])
        return target

    def _copy(self, target: Any, source: Any) -> None:
        stream = ffi.cast("void *", self.stream)
        check(lib.im2win_cuda_copy(self.device, target, source, self.nbytes, stream))
        check(lib.im2win_cuda_synchronize(self.device, stream))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3. Errors: AttributeError for bfloat16, which the protocol cannot name."""
        if self.dtype == "bfloat16":
            raise AttributeError("__cuda_array_interface__ cannot name bfloat16: use DLPack")
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": np.dtype(self.dtype).str,
            "data": (self.address, False),
            "strides": self.strides,
            "stream": self.stream or 1,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.device

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule for a consumer on `stream`: None is the legacy default, -1 asks for no order.

        Waits for this array's stream if the consumer's is another one.
        Errors: BufferError for a copy or another device.
        """
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("a DeviceArray is exported as it is, where it is")
        consumer = 0 if stream in (None, 1) else stream
        if consumer not in (-1, self.stream):
            check(lib.im2win_cuda_synchronize(self.device, ffi.cast("void *", self.stream)))
        strides = tuple(stride // ITEMSIZES[self.dtype] for stride in self.strides)
        versioned = max_version is not None and max_version[0] >= 1
        return make_capsule(
            self, self.address, self.shape, strides, self.dtype, self.device, versioned
        )

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype!r}, device={self.device})"


def _allocate(nbytes: int, device: int, stream: int) -> Any:
    """Device memory, freed in the stream's order when the last reference goes."""
    pointer = ffi.new("void **")
    handle = ffi.cast("void *", stream)
    check(lib.im2win_cuda_alloc(device, nbytes, handle, pointer))
    return ffi.gc(pointer[0], lambda memory: lib.im2win_cuda_free(device, memory, handle), nbytes)
