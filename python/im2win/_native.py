"""A plan of the C library: from a descriptor and options to calls with addresses."""

from collections.abc import Callable
from typing import Any

from im2win._library import check, convolve, ffi, last_error, lib, text

_DESCRIPTION_BYTES = 256


class NativePlan:
    """`options` are im2win_plan_options. Immutable, and safe to share between threads.

    Errors: what the C library refuses.
    """

    def __init__(self, desc: Any, options: Any, algorithm: str | None) -> None:
        self._desc, self._device = desc, options.device
        self._plan = _create(desc, options, algorithm)
        self.workspace_bytes = _bytes(lib.im2win_plan_workspace_bytes, self._plan)
        self.packed_filter_bytes = _bytes(lib.im2win_plan_packed_filter_bytes, self._plan)

    @property
    def algorithm(self) -> str:
        name = ffi.new("const char **")
        check(lib.im2win_plan_algorithm(self._plan, name))
        return text(name[0])

    def algorithms(self) -> dict[str, str | None]:
        """Each algorithm of the device: None if it takes the problem, else why it refuses."""
        options = new_options(self._device)
        reasons: dict[str, str | None] = {}
        for name in algorithm_names(self._device):
            status = lib.im2win_conv2d_supports(self._desc, options, name.encode())
            if status not in (lib.IM2WIN_SUCCESS, lib.IM2WIN_UNSUPPORTED):
                check(status)
            reasons[name] = None if status == lib.IM2WIN_SUCCESS else last_error()
        return reasons

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

    def pack_into(self, weight: int, packed: int, stream: int) -> None:
        """Lays out the weight in `packed_filter_bytes` bytes, aligned as a workspace."""
        source, target, handle = (ffi.cast("void *", each) for each in (weight, packed, stream))
        size = self.packed_filter_bytes
        check(lib.im2win_pack_filter(self._plan, source, target, size, handle))


def algorithm_names(device: int) -> tuple[str, ...]:
    """The algorithms of the device's backend, best first."""
    names: list[str] = []
    name = ffi.new("const char **")
    while True:
        check(lib.im2win_algorithm_name(device, len(names), name))
        if name[0] == ffi.NULL:
            return tuple(names)
        names.append(text(name[0]))


def describe_device(device: int) -> str:
    """The device in one line. Errors: Im2winError where it cannot be used."""
    line = ffi.new("char[]", _DESCRIPTION_BYTES)
    check(lib.im2win_device_describe(device, line, _DESCRIPTION_BYTES))
    return text(line)


def new_desc() -> Any:
    """An im2win_conv2d_desc of the defaults."""
    desc = ffi.new("im2win_conv2d_desc *")
    check(lib.im2win_conv2d_desc_init(desc, ffi.sizeof("im2win_conv2d_desc")))
    return desc


def new_options(device: int) -> Any:
    """The im2win_plan_options of the defaults, on the device."""
    options = ffi.new("im2win_plan_options *")
    check(lib.im2win_plan_options_init(options, ffi.sizeof("im2win_plan_options")))
    options.device = device
    return options


def _create(desc: Any, options: Any, algorithm: str | None) -> Any:
    # A copy, as others read the options while the name is there.
    named = ffi.new("im2win_plan_options *", options[0])
    name = ffi.NULL if algorithm is None else ffi.new("char[]", algorithm.encode())
    named.algorithm = name
    plan = ffi.new("im2win_plan **")
    check(lib.im2win_plan_create(desc, named, plan))
    return ffi.gc(plan[0], lib.im2win_plan_destroy)


def _bytes(query: Callable[[Any, Any], int], plan: Any) -> int:
    size = ffi.new("size_t *")
    check(query(plan, size))
    return int(size[0])
