"""CUDA streams as callers name them."""

from typing import Any


def stream_handle(stream: Any) -> int:
    """The cudaStream_t of a handle, or of an object of PyTorch, CuPy or any with __cuda_stream__.

    0 and 1, which both name the legacy default stream, become 0.
    Errors: TypeError for anything else.
    """
    if hasattr(stream, "__cuda_stream__"):
        _version, handle = stream.__cuda_stream__()
    else:
        handle = getattr(stream, "cuda_stream", getattr(stream, "ptr", stream))
    if not isinstance(handle, int) or isinstance(handle, bool) or handle < 0:
        raise TypeError(
            f"stream is {stream!r}, expected a handle, or an object with cuda_stream, ptr or "
            "__cuda_stream__"
        )
    return 0 if handle == 1 else handle
