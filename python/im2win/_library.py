"""The C library: where it is, its functions, and the one place where a status becomes an error.

`ffi` and `lib` are cffi's, and untyped; `lib` has every function of im2win.h.
"""

import os
from pathlib import Path
from typing import Any

from im2win._ffi import ffi

__all__ = [
    "PATH",
    "Im2winError",
    "OutOfMemoryError",
    "check",
    "convolve",
    "ffi",
    "last_error",
    "lib",
    "text",
    "version",
]


class Im2winError(RuntimeError):
    """What went wrong where the arguments are legal; `status` is the C name of the kind of error.

    Arguments that are wrong whatever the algorithm or machine raise ValueError or TypeError.
    """

    def __init__(self, message: str, status: str) -> None:
        super().__init__(message)
        self.status = status


class OutOfMemoryError(Im2winError, MemoryError):
    """Host or device memory ran out."""


def _find_library() -> Path:
    """The shared library of this package, or the one that IM2WIN_LIBRARY names."""
    override = os.environ.get("IM2WIN_LIBRARY")
    if override:
        return Path(override)
    folder = Path(__file__).parent
    names = ("libim2win.so", "libim2win.dylib", "im2win.dll")
    found = [folder / name for name in names if (folder / name).exists()]
    if not found:
        raise ImportError(
            f"no {' or '.join(names)} in {folder}: install the package, or set IM2WIN_LIBRARY"
        )
    return found[0]


PATH = _find_library()
lib: Any = ffi.dlopen(str(PATH))

# im2win_conv2d with its pointers as integers: converting seven of them to cdata would take longer
# than the call itself.
convolve: Any = ffi.cast(
    "int (*)(const im2win_plan *, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,"
    " size_t, uintptr_t)",
    lib.im2win_conv2d,
)


def text(pointer: Any) -> str:
    """A Python string of a C string."""
    return str(ffi.string(pointer).decode())


def last_error() -> str:
    """The library's message about this thread's last call that failed."""
    return text(lib.im2win_last_error())


def check(status: int) -> None:
    """Raises what `status`, the result of this thread's last call, stands for, if it is an error.

    Errors: ValueError for IM2WIN_INVALID_ARGUMENT, OutOfMemoryError for IM2WIN_OUT_OF_MEMORY and
    Im2winError for the others, with the library's message.
    """
    if status == lib.IM2WIN_SUCCESS:
        return
    if status == lib.IM2WIN_INVALID_ARGUMENT:
        raise ValueError(last_error())
    kind = OutOfMemoryError if status == lib.IM2WIN_OUT_OF_MEMORY else Im2winError
    raise kind(last_error(), text(lib.im2win_status_name(status)))


def version() -> str:
    """The library's version, as "major.minor.patch"."""
    number = lib.im2win_version()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
