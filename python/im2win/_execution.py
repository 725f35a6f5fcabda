"""A plan of the C library for tensors of given specs, and how to run it on tensors."""

import threading
from contextlib import suppress
from typing import Any

from im2win import _tuning
from im2win._arguments import Options, byte_limit, integer
from im2win._call import Call
from im2win._library import Im2winError, ffi
from im2win._native import NativePlan, new_options
from im2win._problem import describe
from im2win._shapes import Tensors
from im2win._tensors.spec import CPU, View

_WORKSPACE_ALIGNMENT = 256
_SCRATCH_BYTES = 64 * 1024


def aligned(size: int) -> int:
    """The bytes after which another buffer may begin."""
    return -(-size // _WORKSPACE_ALIGNMENT) * _WORKSPACE_ALIGNMENT


class _Scratch(threading.local):
    """A thread's memory for small workspaces on the CPU, where calls have ended when they return.

    To allocate some takes longer than a small convolution.
    """

    def __init__(self) -> None:
        self._buffer = ffi.new("char[]", _SCRATCH_BYTES + _WORKSPACE_ALIGNMENT)
        self.address = aligned(int(ffi.cast("uintptr_t", self._buffer)))


_scratch = _Scratch()


class Execution(NativePlan):
    """A plan for tensors of these specs.

    With `packed_filter` it takes the filter that `pack` returned, in the place of the weight.
    Where no algorithm is named, it is the one that the tuning cache has for the problem, or else
    the library's choice.

    Errors: those of `describe`; what the C library refuses.
    """

    def __init__(self, tensors: Tensors, options: Options, *, packed_filter: bool = False) -> None:
        desc, self.output = describe(tensors, options)
        plan_options = _plan_options(tensors.input.device, options, packed_filter)
        if options.algorithm is not None:
            if not isinstance(options.algorithm, str):
                raise TypeError(f"algorithm is {options.algorithm!r}, expected a string or None")
            super().__init__(desc, plan_options, options.algorithm)
            return
        measured = _tuning.measured(desc, plan_options)
        if measured is not None:
            with suppress(Im2winError, ValueError):  # another build may not have it
                super().__init__(desc, plan_options, measured)
                return
        super().__init__(desc, plan_options, None)
        _tuning.record(desc, plan_options)

    def run(self, call: Call) -> Any:
        """Convolves tensors of the plan's specs; returns the output."""
        return call.on_stream(self._run)

    def _run(self, call: Call) -> Any:
        source, weight, bias, residual, _, stream, _ = call
        output, address = call.output(self.output)
        workspace = 0
        if self.workspace_bytes:
            if source.spec.device == CPU and self.workspace_bytes <= _SCRATCH_BYTES:
                workspace = _scratch.address
            else:
                _buffer, workspace = aligned_bytes(source, self.workspace_bytes, stream)
        self.launch(
            source.address,
            weight.address,
            0 if bias is None else bias.address,
            0 if residual is None else residual.address,
            address,
            workspace,
            stream,
        )
        return output

    def pack(self, weight: View, stream: int) -> View:
        """The weight as the algorithm lays it out; itself where it is taken as it is."""
        if self.packed_filter_bytes == 0:
            return weight
        buffer, packed = aligned_bytes(weight, self.packed_filter_bytes, stream)
        self.pack_into(weight.address, packed, stream)
        return View(packed, weight.spec, weight.framework, buffer)


def aligned_bytes(like: View, size: int, stream: int) -> tuple[Any, int]:
    """Memory from the allocator of `like`'s framework, to be kept alive, and its address."""
    # CUDA allocators align by themselves.
    slack = _WORKSPACE_ALIGNMENT - 1 if like.spec.device == CPU else 0
    buffer = like.framework.empty_bytes(like, size + slack, stream)
    return buffer, (like.framework.address(buffer) + slack) & ~slack


def _plan_options(device: int, options: Options, packed_filter: bool) -> Any:
    plan_options = new_options(device)
    plan_options.packed_filter = packed_filter
    plan_options.threads = integer("threads", options.threads)
    limit = byte_limit(options.workspace_limit)
    if limit is not None:
        plan_options.workspace_limit_bytes = limit
    return plan_options
