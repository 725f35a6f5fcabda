"""The C ABI driven as a C program drives it: raw memory on either device, guards around it.

Every tensor lies between guards, and what nobody has written is poison: bytes of all ones, which
are a NaN in every dtype. So a write outside the output shows, as do an output that was left out
and an input or workspace byte that was read before anybody wrote it.
"""

import ctypes
import math
from functools import cache
from typing import Any

import numpy as np

from im2win._library import check, ffi, lib
from numerics import Array
from problems import Problem

CPU: int = lib.IM2WIN_CPU
GUARD = 256  # bytes; also the alignment of what it guards
POISON = 0xFF

DTYPE_CODES: dict[str, int] = {
    "float64": lib.IM2WIN_FLOAT64,
    "float32": lib.IM2WIN_FLOAT32,
    "float16": lib.IM2WIN_FLOAT16,
    "bfloat16": lib.IM2WIN_BFLOAT16,
}
MATHS: dict[str, int] = {
    "fp32": lib.IM2WIN_MATH_FP32,
    "ieee": lib.IM2WIN_MATH_IEEE,
    "tf32": lib.IM2WIN_MATH_TF32,
}


def address(pointer: int) -> Any:
    return ffi.cast("void *", pointer)


class Memory:
    """Bytes on a device, between guards; `shift` bytes off the alignment of a guard."""

    def __init__(self, device: int, content: Array, shift: int = 0) -> None:
        self._device = device
        self._mirror = np.full(content.size + 3 * GUARD, POISON, np.uint8)  # all of it, on the host
        self._base = self._mirror.ctypes.data if device == CPU else self._allocate()
        begin = GUARD + -self._base % GUARD + shift
        self._middle = slice(begin, begin + content.size)
        self._mirror[self._middle] = content
        self.address = self._base + begin
        if device != CPU:
            self._copy(self._base, self._mirror.ctypes.data)

    def _allocate(self) -> int:
        device, pointer = self._device, ffi.new("void **")
        check(lib.im2win_cuda_alloc(device, self._mirror.size, ffi.NULL, pointer))
        self._owner = ffi.gc(pointer[0], lambda p: lib.im2win_cuda_free(device, p, ffi.NULL))
        return int(ffi.cast("uintptr_t", pointer[0]))

    def _copy(self, target: int, source: int) -> None:
        size = self._mirror.size
        check(lib.im2win_cuda_copy(self._device, address(target), address(source), size, ffi.NULL))
        check(lib.im2win_cuda_synchronize(self._device, ffi.NULL))

    def read(self) -> Array:
        """The content as it is now; asserts that the guards are as they were."""
        if self._device != CPU:
            self._copy(self._mirror.ctypes.data, self._base)
        outside = np.ones(self._mirror.size, dtype=bool)
        outside[self._middle] = False
        assert np.all(self._mirror[outside] == POISON), "written outside the memory"
        content: Array = self._mirror[self._middle].copy()
        return content


class Span:
    """The bytes that an array of any strides lies in, from its first to its last."""

    def __init__(self, array: Array) -> None:
        reaches = [(n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)]
        self.offset = -sum(min(reach, 0) for reach in reaches)  # of element [0, 0, 0, 0]
        length = self.offset + sum(max(reach, 0) for reach in reaches) + array.itemsize
        if array.size == 0:
            self.offset = length = 0
        content = ctypes.string_at(array.ctypes.data - self.offset, length)
        self.content = np.frombuffer(content, np.uint8)
        self.strides = tuple(step // array.itemsize for step in array.strides)
        self._like = array

    def view(self, content: Array) -> Array:
        """The array, in other bytes."""
        like = self._like
        view: Array = np.ndarray(like.shape, like.dtype, content.data, self.offset, like.strides)
        return view


class Tensor:
    """A tensor on a device, laid out in memory as the NumPy array that it copies."""

    def __init__(self, device: int, array: Array, shift: int = 0) -> None:
        self._span = Span(array)
        self._memory = Memory(device, self._span.content, shift)
        self.address = self._memory.address + self._span.offset
        self.strides = self._span.strides

    def read(self) -> Array:
        """The tensor as it is now."""
        return self._span.view(self._memory.read())

    def gaps(self) -> Array:
        """The bytes between its elements that are not poison."""
        content = self._memory.read()
        elements = self._span.view(content)
        elements.view(f"u{elements.itemsize}")[...] = -1 % 2 ** (8 * elements.itemsize)
        written: Array = content[content != POISON]
        return written


def poisoned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    content = np.full(math.prod(shape) * dtype.itemsize, POISON, np.uint8)
    array: Array = content.view(dtype).reshape(shape)
    return array


def descriptor(problem: Problem, dtype: str = "float32", **fields: Any) -> Any:
    """The problem as an im2win_conv2d_desc, all dense NCHW unless the fields say otherwise."""
    desc = ffi.new("im2win_conv2d_desc *")
    check(lib.im2win_conv2d_desc_init(desc, ffi.sizeof("im2win_conv2d_desc")))
    desc.dtype = DTYPE_CODES[dtype]
    desc.n, desc.c, desc.h, desc.w = problem.input_shape
    desc.k, desc.r, desc.s = problem.k, problem.r, problem.s
    desc.stride_h, desc.stride_w = problem.stride
    (desc.padding_top, desc.padding_bottom), (desc.padding_left, desc.padding_right) = (
        problem.padding
    )
    desc.dilation_h, desc.dilation_w = problem.dilation
    desc.groups = problem.groups
    for name, value in fields.items():
        setattr(desc, name, value)
    return desc


def set_strides(desc: Any, role: str, tensor: Tensor | Span) -> None:
    setattr(desc, f"{role}_layout", lib.IM2WIN_STRIDED)
    setattr(desc, f"{role}_strides", tensor.strides)


@cache
def c_string(text: str) -> Any:
    """Kept for ever, as cffi does not keep alive what a struct points to."""
    return ffi.new("char[]", text.encode())


def plan_options(device: int, algorithm: str | None = None, threads: int = 0) -> Any:
    options = ffi.new("im2win_plan_options *")
    check(lib.im2win_plan_options_init(options, ffi.sizeof("im2win_plan_options")))
    options.device, options.threads = device, threads
    options.algorithm = ffi.NULL if algorithm is None else c_string(algorithm)
    return options


def create_plan(
    desc: Any,
    device: int = CPU,
    algorithm: str | None = None,
    threads: int = 0,
    workspace_limit: int | None = None,
) -> Any:
    options = plan_options(device, algorithm, threads)
    if workspace_limit is not None:
        options.workspace_limit_bytes = workspace_limit
    plan = ffi.new("im2win_plan **")
    check(lib.im2win_plan_create(desc, options, plan))
    return ffi.gc(plan[0], lib.im2win_plan_destroy)


def accepts(desc: Any, device: int, algorithm: str) -> bool:
    status = lib.im2win_conv2d_supports(desc, plan_options(device), algorithm.encode())
    assert status in (lib.IM2WIN_SUCCESS, lib.IM2WIN_UNSUPPORTED)
    return bool(status == lib.IM2WIN_SUCCESS)


def workspace_bytes(plan: Any) -> int:
    needed = ffi.new("size_t *")
    check(lib.im2win_plan_workspace_bytes(plan, needed))
    return int(needed[0])


def new_workspace(plan: Any, device: int) -> Memory:
    return Memory(device, np.full(workspace_bytes(plan), POISON, np.uint8))


def run(
    problem: Problem,
    x: Array,
    weight: Array,
    *,
    device: int = CPU,
    algorithm: str | None = None,
    bias: Array | None = None,
    residual: Array | None = None,
    out: Array | None = None,
    threads: int = 0,
    workspace_limit: int | None = None,
    shift: int = 0,
    **fields: Any,
) -> Array:
    """Convolves arrays of any strides; returns the output, of the strides of `out`.

    Where `residual` is `out`, they are one tensor. Asserts that no byte was written but the
    output's and the workspace's.
    """
    out = poisoned(problem.output_shape, x.dtype) if out is None else out
    given = {"input": x, "filter": weight, "bias": bias, "residual": residual, "output": out}
    if residual is out:
        del given["residual"]
    tensors = {name: Tensor(device, a, shift) for name, a in given.items() if a is not None}
    if residual is out:
        tensors["residual"] = tensors["output"]

    desc = descriptor(problem, x.dtype.name, has_residual=residual is not None, **fields)
    for role in tensors.keys() - {"bias"}:
        set_strides(desc, role, tensors[role])
    if bias is not None:
        desc.bias_dtype = DTYPE_CODES[bias.dtype.name]
        (desc.bias_stride,) = tensors["bias"].strides
    plan = create_plan(desc, device, algorithm, threads, workspace_limit)
    execute(plan, device, tensors)

    for name, array in given.items():
        if array is not None and array is not out:
            assert tensors[name].read().tobytes() == array.tobytes(), f"{name} was written"
    assert tensors["output"].gaps().size == 0, "written between the output's elements"
    return tensors["output"].read()


def execute(plan: Any, device: int, tensors: dict[str, Tensor]) -> None:
    """Runs the plan with a workspace of just the size that it asks for."""
    roles = ("input", "filter", "bias", "residual", "output")
    pointers = [address(tensors[role].address if role in tensors else 0) for role in roles]
    size = workspace_bytes(plan)
    workspace = new_workspace(plan, device)
    memory = address(workspace.address if size else 0)
    check(lib.im2win_conv2d(plan, *pointers, memory, size, ffi.NULL))
    workspace.read()
