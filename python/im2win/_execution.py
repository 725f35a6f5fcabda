"""A plan of the C library for tensors of given specs, and how to run it on tensors."""

from collections.abc import Callable
from typing import Any

from im2win._arguments import Options, byte_limit, integer
from im2win._call import Call
from im2win._library import check, convolve, ffi, last_error, lib, text
from im2win._problem import describe
from im2win._shapes import Tensors
from im2win._tensors.spec import CPU, View

_WORKSPACE_ALIGNMENT = 256


class Execution:
    """A plan for tensors of these specs. Immutable, and safe to share between threads.

    With `packed_filter` it takes the filter that `pack` returned, in the place of the weight.
    Errors: those of `describe`; what the C library refuses.
    """

    def __init__(self, tensors: Tensors, options: Options, *, packed_filter: bool = False) -> None:
        self._desc, self.output = describe(tensors, options)
        self._device = tensors.input.device
        self._plan = _create_plan(self._desc, self._device, options, packed_filter)
        self.workspace_bytes = _bytes(lib.im2win_plan_workspace_bytes, self._plan)
        self.packed_filter_bytes = _bytes(lib.im2win_plan_packed_filter_bytes, self._plan)

    @property
    def algorithm(self) -> str:
        name = ffi.new("const char **")
        check(lib.im2win_plan_algorithm(self._plan, name))
        return text(name[0])

    def algorithms(self) -> dict[str, str | None]:
        """Each algorithm of the device: None if it takes the problem, else why it refuses."""
        options = _new_options(self._device)
        reasons: dict[str, str | None] = {}
        for name in algorithm_names(self._device):
            status = lib.im2win_conv2d_supports(self._desc, options, name.encode())
            if status not in (lib.IM2WIN_SUCCESS, lib.IM2WIN_UNSUPPORTED):
                check(status)
            reasons[name] = None if status == lib.IM2WIN_SUCCESS else last_error()
        return reasons

    def run(self, call: Call) -> Any:
        """Convolves tensors of the plan's specs; returns the output."""
        return call.on_stream(self._run)

    def _run(self, call: Call) -> Any:
        source, weight, bias, residual, _, stream, _ = call
        output, address = call.output(self.output)
        workspace = 0
        if self.workspace_bytes:
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

    def launch(
        self,
        input: int,
        weight: int,
        bias: int,
        residual: int,
        output: int,
        workspace: int,
        stream: int,
    ) -> None:
        """Convolves tensors at these addresses; 0 where there is none."""
        size = self.workspace_bytes
        status = convolve(
            self._plan, input, weight, bias, residual, output, workspace, size, stream
        )
        if status:
            check(status)

    def pack(self, weight: View, stream: int) -> View:
        """The weight as the algorithm lays it out; itself where it is taken as it is."""
        if self.packed_filter_bytes == 0:
            return weight
        buffer, packed = aligned_bytes(weight, self.packed_filter_bytes, stream)
        self.pack_into(weight.address, packed, stream)
        return View(packed, weight.spec, weight.framework, buffer)

    def pack_into(self, weight: int, packed: int, stream: int) -> None:
        """Lays out the weight in `packed_filter_bytes` bytes, aligned as a workspace."""
        source, target, handle = (ffi.cast("void *", each) for each in (weight, packed, stream))
        size = self.packed_filter_bytes
        check(lib.im2win_pack_filter(self._plan, source, target, size, handle))


def aligned(size: int) -> int:
    """The bytes after which another buffer may begin."""
    return -(-size // _WORKSPACE_ALIGNMENT) * _WORKSPACE_ALIGNMENT


def aligned_bytes(like: View, size: int, stream: int) -> tuple[Any, int]:
    """Memory from the allocator of `like`'s framework, to be kept alive, and its address."""
    # CUDA allocators align by themselves.
    slack = _WORKSPACE_ALIGNMENT - 1 if like.spec.device == CPU else 0
    buffer = like.framework.empty_bytes(like, size + slack, stream)
    return buffer, (like.framework.address(buffer) + slack) & ~slack


def algorithm_names(device: int) -> tuple[str, ...]:
    """The algorithms of the device's backend, best first."""
    names: list[str] = []
    name = ffi.new("const char **")
    while True:
        check(lib.im2win_algorithm_name(device, len(names), name))
        if name[0] == ffi.NULL:
            return tuple(names)
        names.append(text(name[0]))


def _new_options(device: int) -> Any:
    options = ffi.new("im2win_plan_options *")
    check(lib.im2win_plan_options_init(options, ffi.sizeof("im2win_plan_options")))
    options.device = device
    return options


def _create_plan(desc: Any, device: int, options: Options, packed_filter: bool) -> Any:
    plan_options = _new_options(device)
    plan_options.packed_filter = packed_filter
    plan_options.threads = integer("threads", options.threads)
    limit = byte_limit(options.workspace_limit)
    if limit is not None:
        plan_options.workspace_limit_bytes = limit
    if options.algorithm is not None:
        if not isinstance(options.algorithm, str):
            raise TypeError(f"algorithm is {options.algorithm!r}, expected a string or None")
        name = ffi.new("char[]", options.algorithm.encode())
        plan_options.algorithm = name
    plan = ffi.new("im2win_plan **")
    check(lib.im2win_plan_create(desc, plan_options, plan))
    return ffi.gc(plan[0], lib.im2win_plan_destroy)


def _bytes(query: Callable[[Any, Any], int], plan: Any) -> int:
    size = ffi.new("size_t *")
    check(query(plan, size))
    return int(size[0])
