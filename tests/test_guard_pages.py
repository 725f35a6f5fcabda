"""Every buffer of a CPU call beside a page that cannot be touched: a byte read or written outside
of it ends the test run, with the place printed. Buffers that end at such a page are aligned as
their elements and no better.
"""

import ctypes
import mmap
import sys
from typing import Any

import numpy as np
import pytest

import capi
import im2win
from capi import CPU
from im2win._library import check, ffi, lib
from numerics import DTYPES, Array, assert_convolved, normal
from problems import MIXED, Problem
from targets import TARGETS, UNDER_ASAN, Target

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs mprotect"),
    pytest.mark.skipif(UNDER_ASAN, reason="AddressSanitizer sees more"),
]
CPU_TARGETS = [pytest.param(t, id=t.algorithm) for t in TARGETS if t.device == CPU]

PROT_NONE = 0


class Guarded:
    """Bytes that begin, or end, where a page without any access ends, or begins."""

    def __init__(self, size: int, at_end: bool, alignment: int = 1) -> None:
        page, libc = mmap.PAGESIZE, ctypes.CDLL(None, use_errno=True)
        inside = max(-(-size // page), 1) * page
        self._memory = mmap.mmap(-1, inside + 2 * page)
        self._first = ctypes.c_char.from_buffer(self._memory)
        base = ctypes.addressof(self._first)
        for guard in (base, base + page + inside):
            assert libc.mprotect(ctypes.c_void_p(guard), page, PROT_NONE) == 0
        begin = page + ((inside - size) // alignment * alignment if at_end else 0)
        self._page = np.frombuffer(self._memory, np.uint8, inside, page)
        self._page[:] = capi.POISON
        self.bytes = np.frombuffer(self._memory, np.uint8, size, begin)
        self.address = base + begin

    def assert_rest_untouched(self) -> None:
        written = int((self._page != capi.POISON).sum())
        assert written == int((self.bytes != capi.POISON).sum()), "written outside the memory"


class Call:
    """A convolution of dense tensors between such pages."""

    def __init__(self, problem: Problem, dtype: str, layout: int, at_end: bool) -> None:
        self._problem, self._dtype, self._layout, self._at_end = problem, dtype, layout, at_end
        self.memory: dict[str, Guarded] = {}

    def place(self, role: str, array: Array) -> Array:
        """A copy in memory of its own, in the layout; the same indices."""
        is_nhwc = self._layout == lib.IM2WIN_NHWC and array.ndim == 4
        dense = np.ascontiguousarray(array.transpose(0, 2, 3, 1) if is_nhwc else array)
        memory = self.memory[role] = Guarded(array.nbytes, self._at_end)
        view: Array = memory.bytes.view(array.dtype).reshape(dense.shape)
        view[...] = dense
        return view.transpose(0, 3, 1, 2) if is_nhwc else view

    def run(self, target: Target, bias: Array, residual: Array | None) -> None:
        problem, dtype = self._problem, self._dtype
        x = self.place("input", normal(problem.input_shape, dtype))
        weight = self.place("filter", normal(problem.weight_shape, dtype))
        y = self.place("output", capi.poisoned(problem.output_shape, DTYPES[dtype]))
        self.place("bias", bias)
        fields: dict[str, Any] = {f"{role}_layout": self._layout for role in self.memory}
        del fields["bias_layout"]
        if residual is not None:
            self.place("residual", residual)
            fields |= {"residual_layout": self._layout, "has_residual": 1}
        desc = capi.descriptor(problem, dtype, bias_dtype=capi.DTYPE_CODES[dtype], **fields)
        if not capi.accepts(desc, CPU, target.algorithm):
            return
        plan = capi.create_plan(desc, CPU, target.algorithm, threads=2)
        size = capi.workspace_bytes(plan)
        workspace = self.memory["workspace"] = Guarded(size, self._at_end, alignment=256)
        roles = ("input", "filter", "bias", "residual", "output")
        pointers = [capi.address(self.memory[r].address if r in self.memory else 0) for r in roles]
        at = capi.address(workspace.address if size else 0)
        check(lib.im2win_conv2d(plan, *pointers, at, size, ffi.NULL))
        for memory in self.memory.values():
            memory.assert_rest_untouched()
        assert_convolved(y, x, weight, problem, target.algorithm)


@pytest.mark.parametrize("at_end", [False, True], ids=["begin", "end"])
@pytest.mark.parametrize("layout", [lib.IM2WIN_NCHW, lib.IM2WIN_NHWC], ids=["nchw", "nhwc"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512", "avx512_bf16"])
@pytest.mark.parametrize("target", CPU_TARGETS)
def test_convolution(
    target: Target, isa: str, dtype: str, layout: int, at_end: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bias and residual are zeros: they are read, and the sums stay what they are."""
    monkeypatch.setenv("IM2WIN_CPU_ISA", isa)
    try:
        im2win.info()
    except ValueError as unknown:
        pytest.skip(str(unknown))
    for i, problem in enumerate(MIXED):
        bias = np.zeros((problem.k,), DTYPES[dtype])
        has_residual = (i + at_end) % 2 == 1
        residual = np.zeros(problem.output_shape, DTYPES[dtype]) if has_residual else None
        Call(problem, dtype, layout, at_end).run(target, bias, residual)


@pytest.mark.parametrize("at_end", [False, True], ids=["begin", "end"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("problem", MIXED, ids=str)
def test_transform(problem: Problem, dtype: str, at_end: bool) -> None:
    desc, needed = capi.descriptor(problem, dtype), ffi.new("size_t *")
    check(lib.im2win_transform_bytes(desc, needed))
    x = normal(problem.input_shape, dtype)
    source, target = Guarded(x.nbytes, at_end), Guarded(needed[0], at_end)
    source.bytes[:] = x.view(np.uint8).ravel()
    pointers = [capi.address(memory.address) for memory in (source, target)]
    check(lib.im2win_transform(desc, CPU, *pointers, needed[0], ffi.NULL))
    target.assert_rest_untouched()
    assert np.isfinite(target.bytes.view(DTYPES[dtype]).astype(np.float64)).all()


@pytest.mark.parametrize("at_end", [False, True], ids=["begin", "end"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("problem", MIXED, ids=str)
def test_packing(problem: Problem, dtype: str, at_end: bool) -> None:
    plan, needed = capi.create_plan(capi.descriptor(problem, dtype)), ffi.new("size_t *")
    check(lib.im2win_plan_packed_filter_bytes(plan, needed))
    weight = normal(problem.weight_shape, dtype)
    filters = Guarded(weight.nbytes, at_end)
    packed = Guarded(needed[0], at_end, alignment=256)
    filters.bytes[:] = weight.view(np.uint8).ravel()
    pointers = [capi.address(memory.address) for memory in (filters, packed)]
    check(lib.im2win_pack_filter(plan, *pointers, needed[0], ffi.NULL))
    packed.assert_rest_untouched()
