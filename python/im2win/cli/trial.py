"""One problem by each of its algorithms: outputs compared, calls timed."""

from collections.abc import Callable
from typing import Any

import numpy as np

from im2win import _tuning, reference
from im2win._arguments import MATHS
from im2win._library import Im2winError, lib
from im2win._native import NativePlan, new_desc, new_options
from im2win._problem import output_size
from im2win._tensors.spec import DTYPE_CODES
from im2win.cli.memory import Memory, TensorMemory
from im2win.cli.timing import samples, seconds_per_call

_SECONDS_PER_ALGORITHM, _SAMPLES = 0.3, 15
_COMPARED = 2**20  # elements of the output
# Where there is more to multiply, what is naive cannot win, and takes minutes to show it.
_NAIVE_PRODUCTS = 2**32
_NAIVE = ("direct", "implicit_gemm", "im2win_no_microkernel")
# What is faster by less may be so by chance: the library's own choice is kept.
_MARGIN = 0.03

_DTYPES = {code: name for name, code in DTYPE_CODES.items()}
_MATHS = {code: name for name, code in MATHS.items()}


class Trial:
    """A problem with its tensors on a device.

    Attributes:
        default: the algorithm that the library chooses by itself.
        algorithms: those to try, the default first.
    """

    def __init__(self, desc: Any, options: Any) -> None:
        """Of a descriptor all of whose tensors are strided. Errors: ValueError, Im2winError."""
        self._desc, self._options = desc, options
        p, q = output_size(desc)
        self._terms = desc.c // desc.groups * desc.r * desc.s
        plan = NativePlan(desc, self._options, None)
        self.default = plan.algorithm
        naive = _NAIVE if desc.n * desc.k * p * q * self._terms > _NAIVE_PRODUCTS else ()
        taking = [name for name, reason in plan.algorithms().items() if reason is None]
        others = [name for name in taking if name not in (self.default, *naive)]
        self.algorithms = (self.default, *others)
        self._allocate((desc.n, desc.k, p, q))
        self._expected: Any = None

    def seconds(self, algorithm: str) -> float | None:
        """Of a call; None where it keeps no workspace limit, or its output is not the default's."""
        try:
            plan = NativePlan(self._desc, self._options, algorithm)
        except Im2winError as error:
            if error.status != "IM2WIN_WORKSPACE_TOO_SMALL":
                raise
            return None
        device = self._options.device
        call = self._call(plan)
        self._output.poison_head(_COMPARED)
        first_seconds = seconds_per_call(call, device)
        if not self._is_right(self._output.head(_COMPARED)):
            return None
        # What else runs here can only add to a sample.
        return min(samples(call, device, first_seconds, _SAMPLES, _SECONDS_PER_ALGORITHM))

    def store(self, fastest: str, seconds: dict[str, float]) -> None:
        """Makes it the choice of plans. Errors: OSError."""
        milliseconds = {name: 1e3 * each for name, each in seconds.items()}
        _tuning.store(_tuning.key(self._desc, self._options), fastest, milliseconds)

    def _allocate(self, output_shape: tuple[int, ...]) -> None:
        desc, device = self._desc, self._options.device
        dtype = _DTYPES[desc.dtype]
        image, window = (desc.n, desc.c, desc.h, desc.w), (desc.c // desc.groups, desc.r, desc.s)
        self._input = TensorMemory(dtype, image, desc.input_strides, device)
        self._filter = TensorMemory(dtype, (desc.k, *window), desc.filter_strides, device)
        self._output = TensorMemory(dtype, output_shape, desc.output_strides, device)
        self._bias = self._residual = None
        if desc.bias_dtype != lib.IM2WIN_NONE:
            bias_dtype = _DTYPES[desc.bias_dtype]
            self._bias = TensorMemory(bias_dtype, (desc.k,), (desc.bias_stride,), device)
        if desc.has_residual:
            self._residual = TensorMemory(dtype, output_shape, desc.residual_strides, device)

    def _call(self, plan: NativePlan) -> Callable[[], None]:
        """Convolves, with a workspace and, where the options say so, a packed filter."""
        device = self._options.device
        workspace = Memory(plan.workspace_bytes, device)
        filter: Memory | TensorMemory = self._filter
        if self._options.packed_filter and plan.packed_filter_bytes:
            filter = Memory(plan.packed_filter_bytes, device)
            plan.pack_into(self._filter.address, filter.address, 0)

        def call() -> None:
            plan.launch(
                self._input.address,
                filter.address,
                0 if self._bias is None else self._bias.address,
                0 if self._residual is None else self._residual.address,
                self._output.address,
                workspace.address,
                0,
            )

        return call

    def _is_right(self, output: Any) -> bool:
        """Whether the output is that of the first call, the default's.

        Products, bias and residual are at most 1. What is still poison lies between the elements.
        """
        if self._expected is None:
            self._expected = output
        desc = self._desc
        magnitude = abs(desc.alpha) * self._terms + abs(desc.beta) + 1
        bound = reference.bound(_DTYPES[desc.dtype], self._terms, _MATHS[desc.math])
        is_close = np.abs(output - self._expected) <= 2 * bound * magnitude
        return bool(np.all(is_close | (np.isnan(output) & np.isnan(self._expected))))


def describe_entry(entry: _tuning.Fields, device: int) -> tuple[Any, Any]:
    """Descriptor and options. Errors: TypeError, ValueError or KeyError for what is no entry."""
    desc, options = new_desc(), new_options(device)
    _tuning.set_fields(desc, entry["key"]["problem"])
    _tuning.set_fields(options, entry["key"]["options"])
    for tensor in ("input", "filter", "output", "residual"):
        setattr(desc, f"{tensor}_layout", lib.IM2WIN_STRIDED)
    output_size(desc)  # checks it
    return desc, options


def title(desc: Any, options: Any) -> str:
    """What tells one problem from others, mostly."""
    channels_last = desc.c > 1 and desc.input_strides[1] == 1
    parts = [
        _DTYPES[desc.dtype],
        f"{desc.n}x{desc.c}x{desc.h}x{desc.w}" + ", channels last" * channels_last,
        f"* {desc.k}x{desc.c // desc.groups}x{desc.r}x{desc.s}",
        f"stride {desc.stride_h},{desc.stride_w}",
        f"padding {desc.padding_top},{desc.padding_left}",
    ]
    parts += ["packed"] * options.packed_filter
    return " ".join(parts)


def choose(default: str, seconds: dict[str, float]) -> str:
    """The fastest, if it is not the default by chance alone."""
    fastest = min(seconds, key=lambda name: seconds[name])
    return fastest if seconds[fastest] < (1 - _MARGIN) * seconds[default] else default
