"""Memory of a device with numbers in it, for calls of the C library."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from im2win._library import check, ffi, lib
from im2win._tensors.device_array import DeviceArray
from im2win._tensors.spec import CPU, ITEMSIZES

_ALIGNMENT = 256
_DIFFERENT = 2**20  # numbers, which are then repeated

Array = np.ndarray[Any, Any]


class Memory:
    """Bytes on a device, aligned as a workspace has to be.

    Attributes:
        address: of the first; 0 if there is none.
    """

    def __init__(self, size: int, device: int) -> None:
        self._size, self._device = size, device
        if size == 0:
            self.address = 0
        elif device == CPU:
            self._owner: Any = np.empty(size + _ALIGNMENT, np.uint8)
            self.address = -(-self._owner.ctypes.data // _ALIGNMENT) * _ALIGNMENT
        else:
            self._owner = DeviceArray((size,), "uint8", device)
            self.address = self._owner.address

    def write(self, content: Array, size: int) -> None:
        """Repeats the content in the first `size` bytes."""
        content = content.view(np.uint8)
        for begin in range(0, min(size, self._size), content.size):
            length = min(content.size, self._size - begin)
            self._copy(self.address + begin, content.ctypes.data, length)

    def read(self, size: int) -> Array:
        """The first `size` bytes."""
        content = np.empty(min(size, self._size), np.uint8)
        self._copy(content.ctypes.data, self.address, content.size)
        return content

    def _copy(self, target: int, source: int, size: int) -> None:
        to, of = ffi.cast("void *", target), ffi.cast("void *", source)
        if self._device == CPU:
            ffi.memmove(to, of, size)
            return
        check(lib.im2win_cuda_copy(self._device, to, of, size, ffi.NULL))
        check(lib.im2win_cuda_synchronize(self._device, ffi.NULL))


class TensorMemory:
    """A tensor of any strides with numbers between -1 and 1; `address` is that of element 0."""

    def __init__(self, dtype: str, shape: Sequence[int], strides: Sequence[int], device: int):
        steps = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
        before = -sum(step for step in steps if step < 0)
        elements = before + sum(step for step in steps if step > 0) + 1
        self._dtype = dtype
        self._memory = Memory(elements * ITEMSIZES[dtype], device)
        self.address = self._memory.address + before * ITEMSIZES[dtype]
        numbers = np.random.default_rng(0).uniform(-1, 1, min(elements, _DIFFERENT))
        self._memory.write(_to(dtype, numbers), elements * ITEMSIZES[dtype])

    def poison_head(self, elements: int) -> None:
        """Makes the first numbers, and all between them, NaN."""
        size = elements * ITEMSIZES[self._dtype]
        self._memory.write(np.full(size, 0xFF, np.uint8), size)

    def head(self, elements: int) -> Array:
        """The first numbers of the memory."""
        return _from(self._dtype, self._memory.read(elements * ITEMSIZES[self._dtype]))


def _to(dtype: str, numbers: Array) -> Array:
    if dtype != "bfloat16":
        return numbers.astype(dtype)
    return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def _from(dtype: str, content: Array) -> Array:
    """In float64."""
    if dtype != "bfloat16":
        return content.view(dtype).astype(np.float64)
    wide = content.view(np.uint16).astype(np.uint32) << 16
    return wide.view(np.float32).astype(np.float64)
