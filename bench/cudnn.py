"""cuDNN's convolution algorithms one by one, through its own shared library and legacy API.

https://docs.nvidia.com/deeplearning/cudnn/backend/latest/api/cudnn-cnn-library.html
"""

import ctypes
import weakref
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from case import DEVICE, DTYPES, Case

# cudnnConvolutionFwdAlgo_t, in order.
ALGORITHMS = (
    "IMPLICIT_GEMM",
    "IMPLICIT_PRECOMP_GEMM",
    "GEMM",
    "DIRECT",
    "FFT",
    "FFT_TILING",
    "WINOGRAD",
    "WINOGRAD_NONFUSED",
)
_DATA_TYPES = {torch.float32: 0, torch.float16: 2, torch.bfloat16: 9}  # cudnnDataType_t
_COMPUTE_FLOAT = _DATA_TYPES[torch.float32]
_FORMATS = {"NCHW": 0, "NHWC": 1}  # cudnnTensorFormat_t
_CROSS_CORRELATION = 1  # cudnnConvolutionMode_t
# cudnnMathType_t: CUDNN_FMA_MATH; CUDNN_DEFAULT_MATH, which takes TF32 for float32 tensors;
# CUDNN_TENSOR_OP_MATH.
_MATHS = {"fp32": 3, "tf32": 0, "fp16": 1, "bf16": 1}


class CuDNNError(RuntimeError):
    """A status other than success, such as CUDNN_STATUS_NOT_SUPPORTED."""


@cache
def load() -> Any:
    """The library that PyTorch has loaded, or else that of the nvidia-cudnn wheel.

    Errors: CuDNNError where there is none.
    """
    for name in _candidates():
        try:
            loaded = ctypes.CDLL(name)
        except OSError:
            continue
        loaded.cudnnGetErrorString.restype = ctypes.c_char_p
        loaded.cudnnGetVersion.restype = ctypes.c_size_t
        return loaded
    raise CuDNNError("no libcudnn.so.9")


class _Descriptors:
    """Of a case."""

    def __init__(self, case: Case) -> None:
        layer, dtype = case.layer, _DATA_TYPES[DTYPES[case.dtype]]
        layout, pad, stride = _FORMATS[case.layout], layer.padding, layer.stride
        self._input = _Descriptor("Tensor", "Tensor4d", layout, dtype, *case.input_shape)
        self._filter = _Descriptor("Filter", "Filter4d", dtype, layout, *layer.weight_shape)
        self._output = _Descriptor("Tensor", "Tensor4d", layout, dtype, *case.output_shape)
        window = (pad, pad, stride, stride, 1, 1)
        kind = (_CROSS_CORRELATION, _COMPUTE_FLOAT)
        self._convolution = _Descriptor("Convolution", "Convolution2d", *window, *kind)
        math = _MATHS[case.dtype]
        _call("cudnnSetConvolutionMathType", self._convolution.handle, ctypes.c_int(math))

    def in_order(self) -> tuple[Any, Any, Any, Any]:
        """As cuDNN's functions that choose take them."""
        parts = (self._input, self._filter, self._convolution, self._output)
        return tuple(part.handle for part in parts)  # type: ignore[return-value]


class Convolution(_Descriptors):
    """One algorithm for one case. Errors: CuDNNError if the algorithm does not take it."""

    def __init__(self, case: Case, weight: Any, algorithm: str) -> None:
        super().__init__(case)
        self._case, self._weight = case, weight
        self._algorithm = ALGORITHMS.index(algorithm)
        self.workspace_bytes = self._find_workspace_bytes()

    def _find_workspace_bytes(self) -> int:
        size = ctypes.c_size_t()
        _call(
            "cudnnGetConvolutionForwardWorkspaceSize",
            _handle(),
            *self.in_order(),
            self._algorithm,
            ctypes.byref(size),
        )
        return size.value

    def __call__(self, input: Any, output: Any = None) -> Any:
        """On PyTorch's current stream, in memory from its allocator."""
        output = self._case.empty_output() if output is None else output
        workspace = torch.empty(self.workspace_bytes, dtype=torch.uint8, device=DEVICE)
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        stream = torch.cuda.current_stream().cuda_stream
        _call("cudnnSetStream", _handle(), ctypes.c_void_p(stream))
        _call(
            "cudnnConvolutionForward",
            _handle(),
            ctypes.byref(one),
            self._input.handle,
            ctypes.c_void_p(input.data_ptr()),
            self._filter.handle,
            ctypes.c_void_p(self._weight.data_ptr()),
            self._convolution.handle,
            self._algorithm,
            ctypes.c_void_p(workspace.data_ptr()),
            ctypes.c_size_t(self.workspace_bytes),
            ctypes.byref(zero),
            self._output.handle,
            ctypes.c_void_p(output.data_ptr()),
        )
        return output


class _Found(ctypes.Structure):
    """cudnnConvolutionFwdAlgoPerf_t."""

    _fields_ = (
        ("algorithm", ctypes.c_int),
        ("status", ctypes.c_int),
        ("milliseconds", ctypes.c_float),
        ("workspace_bytes", ctypes.c_size_t),
        ("determinism", ctypes.c_int),
        ("math", ctypes.c_int),
        ("reserved", ctypes.c_int * 3),
    )


def fastest(case: Case) -> str:
    """The algorithm that cuDNN itself measures to be the fastest. Errors: CuDNNError."""
    found = (_Found * len(ALGORITHMS))()
    count = ctypes.c_int()
    descriptors = _Descriptors(case)
    _call(
        "cudnnFindConvolutionForwardAlgorithm",
        _handle(),
        *descriptors.in_order(),
        ctypes.c_int(len(ALGORITHMS)),
        ctypes.byref(count),
        found,
    )
    working = [each for each in found[: count.value] if each.status == 0]
    if not working:
        raise CuDNNError("no algorithm takes the case")
    return ALGORITHMS[min(working, key=lambda each: each.milliseconds).algorithm]


class _Descriptor:
    """A cudnnTensorDescriptor_t and the like, destroyed with this object."""

    def __init__(self, kind: str, setter: str, *values: int) -> None:
        self.handle = ctypes.c_void_p()
        _call(f"cudnnCreate{kind}Descriptor", ctypes.byref(self.handle))
        destroy = getattr(load(), f"cudnnDestroy{kind}Descriptor")
        weakref.finalize(self, destroy, ctypes.c_void_p(self.handle.value))
        _call(f"cudnnSet{setter}Descriptor", self.handle, *map(ctypes.c_int, values))


@cache
def _handle() -> Any:
    handle = ctypes.c_void_p()
    _call("cudnnCreate", ctypes.byref(handle))
    return handle


def _candidates() -> Iterator[str]:
    yield "libcudnn.so.9"  # what is loaded already goes by this name
    wheel = find_spec("nvidia.cudnn") if find_spec("nvidia") else None
    for folder in wheel.submodule_search_locations or () if wheel else ():
        yield from map(str, Path(folder).glob("lib/libcudnn.so.*"))


def _call(name: str, *arguments: Any) -> None:
    status = getattr(load(), name)(*arguments)
    if status:
        raise CuDNNError(f"{name}: {load().cudnnGetErrorString(status).decode()}")
