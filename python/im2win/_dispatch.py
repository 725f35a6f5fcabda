"""The way of every convolution: options made plain, tensors viewed, the plan found, and run."""

from collections.abc import Hashable
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from im2win._arguments import Options, plain, real
from im2win._call import prepare_call
from im2win._execution import Execution
from im2win._shapes import Tensors
from im2win._tensors.device_array import DeviceArray
from im2win._tensors.spec import CPU, parse_device
from im2win._volume.execution import VolumeExecution

_PLANS = 1024  # kept, the least recently used of them going first
_INTEGER = {int}

Plan: TypeAlias = Execution | VolumeExecution


def make_plan(tensors: Tensors, options: Options, *, packed_filter: bool = False) -> Plan:
    kind = VolumeExecution if options.dims == 3 else Execution
    return kind(tensors, options, packed_filter=packed_filter)


plan_for = lru_cache(maxsize=_PLANS)(make_plan)


def convolve(
    input: Any,
    weight: Any,
    bias: Any,
    residual: Any,
    out: Any,
    options: Options,
    stream: Any,
    device: Any,
) -> Any:
    """What conv1d, conv2d and conv3d do with their arguments."""
    _, _, stride, padding, dilation, groups, _, _, _, alpha, beta, _, _ = options
    if not (
        _is_plain(stride)
        and _is_plain(padding)
        and _is_plain(dilation)
        and groups.__class__ is int
        and alpha.__class__ is beta.__class__ is float
    ):
        options = _plain(options)
    if device is not None:
        _require_numpy(input, weight, bias, residual, out)
        if parse_device(device) != CPU:
            return _by_copies(input, weight, bias, residual, out, options, stream, device)
    call = prepare_call(input, weight, bias, residual, out, stream)
    specs = call.specs()
    try:
        plan = plan_for(specs, options)
    except TypeError:  # what an argument without a hash raises, too
        hashable = Options(*map(_hashable, Options._fields, options))
        if hashable == options:
            raise
        plan = plan_for(specs, hashable)
    return plan.run(call)


def _is_plain(value: Any) -> bool:
    """Whether `plain` would change nothing; of what callers mostly write, as it takes longer."""
    kind = value.__class__
    return kind is int or kind is str or (kind is tuple and _INTEGER.issuperset(map(type, value)))


def _plain(options: Options) -> Options:
    """Equal numbers as equal keys of the plan cache, and no lists."""
    geometry = ("stride", "padding", "dilation", "groups")
    numbers: dict[str, Any] = {name: plain(name, getattr(options, name)) for name in geometry}
    alpha, beta = real("alpha", options.alpha), real("beta", options.beta)
    return options._replace(**numbers, alpha=alpha, beta=beta)


def _hashable(name: str, value: Any) -> Any:
    """The value, its lists as tuples, as a part of the plan cache's key."""
    if isinstance(value, (list, tuple)):
        return tuple(_hashable(name, item) for item in value)
    if not isinstance(value, Hashable):
        raise TypeError(f"{name} is {value!r}, of type {type(value).__name__}") from None
    return value


def _by_copies(
    input: Any,
    weight: Any,
    bias: Any,
    residual: Any,
    out: Any,
    options: Options,
    stream: Any,
    device: str,
) -> Any:
    """The convolution of NumPy arrays on a CUDA device."""

    def copy(array: Any) -> DeviceArray | None:
        return None if array is None else DeviceArray.from_numpy(array, device, stream)

    if out is not None and not out.flags.writeable:
        raise ValueError("out is read-only, expected an array that can be written to")
    copies = copy(input), copy(weight), copy(bias), copy(residual), copy(out)
    result = convolve(*copies, options, stream, None).numpy()
    if out is None:
        return result
    np.copyto(out, result, casting="no")
    return out


def _require_numpy(*tensors: Any) -> None:
    for tensor in tensors:
        if tensor is not None and not isinstance(tensor, np.ndarray):
            raise TypeError(
                f"device is for NumPy arrays, not for {type(tensor).__name__}, which is computed "
                "on where it is"
            )
