"""Whether an output of several planes is apart from what is read while they are written."""

from typing import Any, TypeAlias

import numpy as np

from im2win._call import Call
from im2win._tensors.spec import ITEMSIZES, Shape, View, is_dense

Array: TypeAlias = np.ndarray[Any, Any]

_EFFORT = 100_000  # of NumPy's exact answer; where that is not enough, tensors count as overlapping


class _Memory:
    """Memory as NumPy is told of it, which computes with the addresses and never reads them."""

    def __init__(self, address: int, shape: Shape, strides: Shape, itemsize: int) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (address, True),
            "shape": tuple(shape),
            "strides": tuple(step * itemsize for step in strides),
            "typestr": f"<u{itemsize}",
        }


def check_out(call: Call, depth: int) -> None:
    """Errors: ValueError if `out` overlaps itself along axis `depth`, or another tensor.

    It may be the residual itself. Each plane of it by itself is checked by the C library.
    """
    out = call.out
    if out is None or 0 in out.spec.shape:
        return
    planes = _array(out).swapaxes(0, depth)
    if _overlap(planes[:1], planes[1:]):
        raise ValueError(f"out has strides {tuple(out.spec.strides)}, so that it overlaps itself")
    for name in ("input", "weight", "bias", "residual"):
        other: View | None = getattr(call, name)
        if other is None or other.address == 0 or 0 in other.spec.shape:
            continue
        if name == "residual" and _same(out, other):
            continue
        if _overlap(_array(out), _array(other)):
            raise ValueError(f"out at {out.address:#x} overlaps {name} at {other.address:#x}")


def _array(view: View) -> Array:
    spec = view.spec
    return np.asarray(_Memory(view.address, spec.shape, spec.strides, ITEMSIZES[spec.dtype]))


def _overlap(a: Array, b: Array) -> bool:
    effort: Any = _EFFORT  # NumPy's annotations know of two values alone
    return np.may_share_memory(a, b, max_work=effort)


def _same(a: View, b: View) -> bool:
    dense = all(is_dense(view.spec.shape, view.spec.strides) for view in (a, b))
    return a.address == b.address and (dense or a.spec.strides == b.spec.strides)
