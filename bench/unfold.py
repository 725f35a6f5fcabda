"""im2col of the whole batch, then a product of matrices for each image: by NumPy, or by CuPy."""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any


def convolve(arrays: Any, input: Any, weight: Any, stride: int) -> Any:
    """Without padding; `arrays` is the module of the arrays. N K P Q."""
    n, c, h, w = input.shape
    k, _, r, s = weight.shape
    p, q = (h - r) // stride + 1, (w - s) // stride + 1
    along_n, along_c, along_h, along_w = input.strides
    windows = arrays.lib.stride_tricks.as_strided(
        input,
        (n, c, r, s, p, q),
        (along_n, along_c, along_h, along_w, along_h * stride, along_w * stride),
    )
    columns = windows.reshape(n, c * r * s, p * q)  # which copies
    return arrays.matmul(weight.reshape(k, c * r * s), columns).reshape(n, k, p, q)


def by_cupy(case: Any, weight: Any) -> Callable[[Any], Any]:
    """A peer of PyTorch's tensors. Errors: RuntimeError unless they are float32."""
    if case.dtype != "fp32":
        raise RuntimeError(f"measured in fp32 alone, not {case.dtype}")
    torch, cupy = import_module("torch"), _cupy_in_pytorchs_memory()
    filters = cupy.asarray(weight)

    def call(input: Any) -> Any:
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            output = convolve(cupy, cupy.asarray(input), filters, case.layer.stride)
        return torch.as_tensor(output, device=input.device)

    return call


@cache
def _cupy_in_pytorchs_memory() -> Any:
    """CuPy, with PyTorch's allocator, so that one counter sees what both take."""
    torch, cupy = import_module("torch"), import_module("cupy")

    def allocate(size: int, device: int) -> int:
        stream = torch.cuda.current_stream(device)
        return int(torch.cuda.caching_allocator_alloc(size, device, stream))

    def free(pointer: int, _: int) -> None:
        torch.cuda.caching_allocator_delete(pointer)

    cupy.cuda.set_allocator(cupy.cuda.PythonFunctionAllocator(allocate, free).malloc)
    return cupy
