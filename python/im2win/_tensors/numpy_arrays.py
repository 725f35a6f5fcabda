"""NumPy arrays, and what CuPy's have in common with them."""

from contextlib import AbstractContextManager, nullcontext
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.ma import MaskedArray  # by np.ma, it would be imported in the first call

from im2win._tensors.spec import (
    CPU,
    DTYPE_CODES,
    ITEMSIZES,
    Axes,
    Shape,
    TensorSpec,
    View,
    dtype_error,
)

# ml_dtypes' bfloat16 joins when the first array of it comes: NumPy has no name for it.
_DTYPE_NAMES = {np.dtype(name): name for name in DTYPE_CODES if name != "bfloat16"}


@cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's dtype of this name. Errors: ImportError for bfloat16 without ml_dtypes."""
    if name == "bfloat16":
        import ml_dtypes

        name = ml_dtypes.bfloat16
    dtype: np.dtype[Any] = np.dtype(name)
    return dtype


def dtype_name(name: str, dtype: np.dtype[Any]) -> str:
    """The name of the dtype of the argument `name`. Errors: TypeError if it is not supported."""
    known = _DTYPE_NAMES.get(dtype)
    if known is None:
        if dtype.name != "bfloat16" or not dtype.isnative:
            raise dtype_error(name, dtype)
        known = _DTYPE_NAMES[dtype] = "bfloat16"
    return known


@lru_cache(maxsize=1024)
def element_strides(name: str, strides_bytes: Shape, dtype: str) -> Shape:
    """Strides in elements. Errors: ValueError if they are not whole elements."""
    itemsize = ITEMSIZES[dtype]
    if any(stride % itemsize for stride in strides_bytes):
        raise ValueError(
            f"{name} has strides of {strides_bytes} bytes, expected multiples of its {dtype} "
            f"elements' {itemsize} bytes"
        )
    return tuple(stride // itemsize for stride in strides_bytes)


class NumPyFramework:
    """numpy.ndarray: on the CPU, where calls are synchronous and streams mean nothing."""

    def view(self, tensor: Any, name: str, stream: int | None) -> View:
        if isinstance(tensor, MaskedArray):
            raise TypeError(f"{name} is a masked array, which is not supported")
        dtype = dtype_name(name, tensor.dtype)
        strides = element_strides(name, tensor.strides, dtype)
        spec = TensorSpec(tensor.shape, strides, dtype, CPU, not tensor.flags.writeable)
        return View(self.address(tensor), spec, self, tensor)

    def address(self, tensor: Any) -> int:
        return int(tensor.__array_interface__["data"][0])

    def empty(self, like: View, shape: Shape, stream: int, axes: Axes = None) -> Any:
        array: Any = np.empty(shape, like.tensor.dtype)
        return array if axes is None else array.transpose(axes)

    def empty_bytes(self, like: View, size: int, stream: int) -> Any:
        return np.empty(size, np.uint8)

    def current_stream(self, device: int) -> int:
        return 0

    def using_stream(self, stream: int, device: int) -> AbstractContextManager[Any]:
        return nullcontext()
