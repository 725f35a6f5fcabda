"""DLPack, as of version 1.3: its structures, and capsules of both kinds, read and made by ctypes.

https://dmlc.github.io/dlpack/latest/c_api.html
"""

import ctypes
from collections.abc import Callable
from typing import Any

VERSION = (1, 3)
CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13  # DLDeviceType
FLOAT, BFLOAT = 2, 4  # DLDataTypeCode
_READ_ONLY = 1  # DLPACK_FLAG_BITMASK_READ_ONLY

_DTYPE_NAMES = {
    (FLOAT, 64): "float64",
    (FLOAT, 32): "float32",
    (FLOAT, 16): "float16",
    (BFLOAT, 16): "bfloat16",
}
DTYPE_CODES = {name: code for code, name in _DTYPE_NAMES.items()}

_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype_code", ctypes.c_uint8),
        ("dtype_bits", ctypes.c_uint8),
        ("dtype_lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )

    def dtype_name(self) -> str | None:
        """The name of the dtype; None if the library does not know it."""
        name = _DTYPE_NAMES.get((self.dtype_code, self.dtype_bits))
        return name if self.dtype_lanes == 1 else None


class _Managed(ctypes.Structure):
    _fields_ = (
        ("tensor", DLTensor),
        ("context", ctypes.c_void_p),
        ("deleter", _Deleter),
    )
    capsule_name = b"dltensor"


class _ManagedVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", _Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    )
    capsule_name = b"dltensor_versioned"


def _python(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    """A function of Python's C API."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_is_valid = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_pointer = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
# The destructor gets a capsule that is dying, which must not become a Python object again.
_is_valid_raw = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_pointer_raw = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_new_arguments = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_new = _python("PyCapsule_New", ctypes.py_object, *_new_arguments)


def read_capsule(capsule: Any) -> tuple[DLTensor, bool]:
    """The tensor in an unconsumed capsule, and whether it is read-only.

    The capsule stays unconsumed, and both belong to it: it frees them when it goes.
    Errors: TypeError for another object, or a capsule that this version cannot read.
    """
    if _is_valid(capsule, _ManagedVersioned.capsule_name):
        address = _pointer(capsule, _ManagedVersioned.capsule_name)
        versioned = _ManagedVersioned.from_address(address)
        if versioned.major != VERSION[0]:
            raise TypeError(f"DLPack version {versioned.major}, expected {VERSION[0]}")
        return versioned.tensor, bool(versioned.flags & _READ_ONLY)
    if _is_valid(capsule, _Managed.capsule_name):
        return _Managed.from_address(_pointer(capsule, _Managed.capsule_name)).tensor, False
    raise TypeError(f"__dlpack__ returned {capsule!r}, expected an unconsumed DLPack capsule")


_exported: dict[int, tuple[Any, ...]] = {}  # address of a managed tensor -> what it needs alive


def _release(managed: int) -> None:
    _exported.pop(managed, None)


def _destroy_capsule(capsule: int) -> None:
    for kind in (_Managed, _ManagedVersioned):
        if _is_valid_raw(capsule, kind.capsule_name):  # renamed by now if it was consumed
            _release(_pointer_raw(capsule, kind.capsule_name))


_deleter = _Deleter(_release)
_destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_destroy_capsule)
# Consumers may call these after this module has been torn down at the interpreter's end.
for _callback in (_deleter, _destructor):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_callback))


def make_capsule(
    owner: Any,
    address: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: str,
    device_id: int,
    versioned: bool,
) -> Any:
    """A capsule of writable CUDA memory; it, then its consumer, keeps `owner` alive.

    Strides are in elements.
    """
    kind = _ManagedVersioned if versioned else _Managed
    managed: Any = kind()
    dimensions = ctypes.c_int64 * len(shape)
    sizes, steps = dimensions(*shape), dimensions(*strides)
    code, bits = DTYPE_CODES[dtype]
    managed.tensor = DLTensor(address, CUDA, device_id, len(shape), code, bits, 1, sizes, steps, 0)
    managed.deleter = _deleter
    if versioned:
        managed.major, managed.minor = VERSION
    key = ctypes.addressof(managed)
    _exported[key] = (managed, sizes, steps, owner)
    return _new(key, kind.capsule_name, ctypes.cast(_destructor, ctypes.c_void_p))
