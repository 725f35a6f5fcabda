"""Any tensor, whichever framework made it, as a View of its memory."""

import sys
from functools import lru_cache
from typing import Any

import numpy as np

from im2win._tensors.cupy_arrays import CuPyFramework
from im2win._tensors.exchange import ExchangeFramework
from im2win._tensors.numpy_arrays import NumPyFramework
from im2win._tensors.spec import Framework, View
from im2win._tensors.torch_tensors import TorchFramework

_NUMPY = NumPyFramework()
_EXCHANGE = ExchangeFramework()
_torch = lru_cache(maxsize=1)(TorchFramework)
_cupy = lru_cache(maxsize=1)(CuPyFramework)


@lru_cache(maxsize=64)
def _framework_of(kind: type) -> Framework:
    """The framework of tensors of this type; never imports one."""
    if issubclass(kind, np.ndarray):
        return _NUMPY
    if issubclass(kind, getattr(sys.modules.get("torch"), "Tensor", ())):
        return _torch()
    if issubclass(kind, getattr(sys.modules.get("cupy"), "ndarray", ())):
        return _cupy()
    return _EXCHANGE


def view(tensor: object, name: str, stream: int | None = None) -> View:
    """A view of `tensor`, the argument called `name`.

    `stream` is the handle of the stream on which the tensor will be read, or None for its
    framework's current one. It matters to producers that order their work by it.

    Errors: TypeError for what is no tensor, or of a kind or dtype that is not supported;
    ValueError for one that cannot be read as it is.
    """
    kind: Any = type(tensor)  # mypy denies that types are hashable
    return _framework_of(kind).view(tensor, name, stream)
