"""Tensors of any other framework: by DLPack, or by __cuda_array_interface__.

Results for them are NumPy arrays on the CPU and DeviceArrays on CUDA.
"""

import ctypes
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from im2win._tensors import dlpack
from im2win._tensors.device_array import DeviceArray
from im2win._tensors.numpy_arrays import dtype_name, element_strides, numpy_dtype
from im2win._tensors.spec import (
    CPU,
    Axes,
    Shape,
    TensorSpec,
    View,
    dense_strides,
    dtype_error,
)

_DEVICES = {dlpack.CPU, dlpack.CUDA, dlpack.CUDA_HOST, dlpack.CUDA_MANAGED}
_DEVICE_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL


class ExchangeFramework:
    """DeviceArray, and anything with `__dlpack__` or `__cuda_array_interface__`.

    No framework says which stream its caller is on, so that it is the legacy default stream,
    unless the caller names one. DLPack producers put their work before that stream's.
    """

    def view(self, tensor: Any, name: str, stream: int | None) -> View:
        if isinstance(tensor, DeviceArray):
            return self._view_device_array(tensor, name, stream or 0)
        if hasattr(tensor, "__dlpack__") and hasattr(tensor, "__dlpack_device__"):
            return self._view_dlpack(tensor, name, stream or 0)
        if hasattr(tensor, "__cuda_array_interface__"):
            return self._view_cuda_array(tensor, name, stream or 0)
        raise TypeError(
            f"{name} is a {type(tensor).__name__}, expected a NumPy, CuPy or PyTorch tensor, or "
            "one with __dlpack__ or __cuda_array_interface__"
        )

    def _view_device_array(self, array: DeviceArray, name: str, stream: int) -> View:
        _check_stream(name, array.stream, stream)
        strides = element_strides(name, array.strides, array.dtype)
        spec = TensorSpec(array.shape, strides, array.dtype, array.device, False)
        return View(array.address, spec, self, array)

    def _view_dlpack(self, producer: Any, name: str, stream: int) -> View:
        device_type, _ordinal = producer.__dlpack_device__()
        if device_type not in _DEVICES:
            raise TypeError(f"{name} is on DLPack device {device_type}, expected CPU or CUDA")
        on_cuda = device_type in (dlpack.CUDA, dlpack.CUDA_MANAGED)
        capsule = _ask_for_capsule(producer, name, {"stream": stream or 1} if on_cuda else {})
        tensor, readonly = dlpack.read_capsule(capsule)
        dtype = tensor.dtype_name()
        if dtype is None:
            code = (tensor.dtype_code, tensor.dtype_bits, tensor.dtype_lanes)
            raise dtype_error(name, getattr(producer, "dtype", f"{code} of DLPack"))
        shape = tuple(tensor.shape[: tensor.ndim])
        strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else dense_strides(shape)
        device = tensor.device_id if on_cuda else CPU
        spec = TensorSpec(shape, strides, dtype, device, readonly)
        # The capsule stays unconsumed: its destructor frees what the View borrows.
        return View((tensor.data or 0) + tensor.byte_offset, spec, self, producer, capsule)

    def _view_cuda_array(self, array: Any, name: str, stream: int) -> View:
        interface = array.__cuda_array_interface__
        if interface.get("mask") is not None:
            raise TypeError(f"{name} is a masked array, which is not supported")
        if interface.get("stream") is not None:
            _check_stream(name, interface["stream"], stream)
        dtype = dtype_name(name, np.dtype(interface["typestr"]))
        shape = tuple(interface["shape"])
        strides_bytes = interface.get("strides")
        strides = (
            dense_strides(shape)
            if strides_bytes is None
            else element_strides(name, tuple(strides_bytes), dtype)
        )
        address, readonly = interface["data"]
        device = _device_of_pointer(address or 0)
        spec = TensorSpec(shape, strides, dtype, device, readonly)
        return View(address or 0, spec, self, array)

    def address(self, tensor: Any) -> int:
        if isinstance(tensor, DeviceArray):
            return tensor.address
        return int(tensor.__array_interface__["data"][0])

    def empty(self, like: View, shape: Shape, stream: int, axes: Axes = None) -> Any:
        if like.spec.device != CPU:
            return DeviceArray(shape, like.spec.dtype, like.spec.device, stream, axes)
        array: Any = np.empty(shape, numpy_dtype(like.spec.dtype))
        return array if axes is None else array.transpose(axes)

    def empty_bytes(self, like: View, size: int, stream: int) -> Any:
        if like.spec.device != CPU:
            return DeviceArray((size,), "uint8", like.spec.device, stream)
        return np.empty(size, np.uint8)

    def current_stream(self, device: int) -> int:
        return 0

    def using_stream(self, stream: int, device: int) -> AbstractContextManager[Any]:
        return nullcontext()


def _check_stream(name: str, tensor_stream: int, stream: int) -> None:
    if tensor_stream not in ((0, 1) if stream == 0 else (stream,)):
        raise ValueError(
            f"{name} is made on stream {tensor_stream:#x}, and the call runs on {stream:#x}: "
            f"pass stream={tensor_stream:#x}"
        )


def _ask_for_capsule(producer: Any, name: str, stream: dict[str, int]) -> Any:
    try:
        try:
            return producer.__dlpack__(**stream, max_version=dlpack.VERSION)
        except TypeError:  # a producer from before DLPack 1.0
            return producer.__dlpack__(**stream)
    except BufferError as error:
        raise ValueError(f"{name} cannot be exported by DLPack: {error}") from error


def _device_of_pointer(address: int) -> int:
    """The ordinal of the device, asked of the driver, since the protocol does not carry it."""
    ordinal = ctypes.c_int(0)
    if address:
        driver = ctypes.CDLL("libcuda.so.1")
        driver.cuPointerGetAttribute(
            ctypes.byref(ordinal), _DEVICE_ORDINAL, ctypes.c_uint64(address)
        )
    return ordinal.value
