"""The tuning cache: which algorithm was measured to be the fastest for a problem on a machine.

A file a problem, named by a digest of its key, holds the key and, once `im2win tune` has measured
it, the choice. Files are only ever put in place whole, so that any number of processes may read and
write at once; what cannot be read, or has another key inside, counts as not there. Plans look up
one file when they are made. They never measure, and write but what `IM2WIN_LOG=problems` asks for.
"""

import ctypes
import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from im2win._library import Im2winError, ffi, version
from im2win._native import describe_device
from im2win._tensors.spec import CPU

Fields: TypeAlias = dict[str, Any]

_DRIVER_VERSION_BYTES = 80  # NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE
# Of a descriptor and its options: what every plan of this package has alike, or the key otherwise.
_LAYOUTS = ("input_layout", "filter_layout", "output_layout", "residual_layout")
_NOT_IN_KEY = ("struct_size", "reserved", "device", "algorithm", *_LAYOUTS)


def folder() -> Path:
    """Where the cache is, whether or not it is there yet."""
    chosen = os.environ.get("IM2WIN_CACHE_DIR")
    if chosen:
        return Path(chosen)
    import platformdirs  # none but who names no folder needs it

    return platformdirs.user_cache_path("im2win") / "tuning"


def key(desc: Any, options: Any) -> Fields:
    """All that the fastest algorithm depends on: the machine, the library, options and problem."""
    device = options.device
    return {
        "device": device_description(device),
        "driver": None if device == CPU else _driver_version(),
        "library": version(),
        "options": _fields(options),
        "problem": _fields(desc),
    }


def measured(desc: Any, options: Any) -> str | None:
    """The name of the algorithm that is stored for a problem. Reads a file, and does no more."""
    try:
        cache = folder()
    except ImportError:  # installed without what it depends on: a convolution needs none of that
        return None
    if not os.path.isdir(cache):  # noqa: PTH112 - Path.is_dir may raise PermissionError
        return None
    own = key(desc, options)
    entry = _read(cache / file_name(own))
    # Compared as they are written: a NaN among the numbers would differ from itself.
    if entry is None or _as_text(entry["key"]) != _as_text(own):
        return None
    name = entry.get("algorithm")
    return name if isinstance(name, str) else None


def record(desc: Any, options: Any) -> None:
    """Where IM2WIN_LOG says so, adds a problem. A folder that cannot be written is a warning."""
    if desc.n > 0 and "problems" in os.environ.get("IM2WIN_LOG", "").split(","):
        try:
            add(desc, options)
        except OSError as error:
            warnings.warn(f"im2win cannot record a problem: {error}", RuntimeWarning, stacklevel=2)


def add(desc: Any, options: Any) -> None:
    """Adds a problem for `im2win tune`; one that is there stays as it is. Errors: OSError."""
    own = key(desc, options)
    path = _path(own)
    _write(path, {"key": own}, replace=path.exists() and _read(path) is None)


def store(own: Fields, algorithm: str, milliseconds: dict[str, float]) -> None:
    """Makes `algorithm` the choice for a key. Errors: OSError."""
    entry = {"key": own, "algorithm": algorithm, "milliseconds": milliseconds}
    _write(_path(own), entry, replace=True)


def entries() -> Iterator[Fields]:
    """All that the cache has, of any machine; of some, the algorithm has yet to be measured."""
    for path in sorted(folder().glob("*.json")):
        entry = _read(path)
        if entry is not None:
            yield entry


def set_fields(struct: Any, fields: Fields) -> None:
    """Makes a descriptor or options what `key` was told of. Errors: TypeError, ValueError."""
    known = _names(struct)
    for name, value in fields.items():
        if name not in known:
            raise ValueError(f"there is no field {name}")
        try:
            setattr(struct, name, value)
        except (IndexError, OverflowError) as error:
            raise ValueError(f"{name} is {value!r}: {error}") from None


@lru_cache
def device_description(device: int) -> str:
    """As im2win_device_describe tells it; "" where the device cannot be used."""
    try:
        return describe_device(device)
    except Im2winError:
        return ""


@lru_cache
def _driver_version() -> str | None:
    """NVIDIA's, by its management library, which makes no CUDA context."""
    version_text = ctypes.create_string_buffer(_DRIVER_VERSION_BYTES)
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        if nvml.nvmlInit_v2() != 0:
            return None
        nvml.nvmlSystemGetDriverVersion(version_text, _DRIVER_VERSION_BYTES)
        nvml.nvmlShutdown()
    except (OSError, AttributeError):
        return None
    return version_text.value.decode()


def _names(struct: Any) -> list[str]:
    fields = ffi.typeof(struct).item.fields
    return [name for name, _ in fields if name not in _NOT_IN_KEY]


def _fields(struct: Any) -> Fields:
    """The members of the struct that a pointer points to, arrays as lists."""
    values = ((name, getattr(struct, name)) for name in _names(struct))
    return {name: list(v) if isinstance(v, ffi.CData) else v for name, v in values}


def _as_text(fields: Fields) -> str:
    return json.dumps(fields, sort_keys=True)


def file_name(own: Fields) -> str:
    """Of a key's entry."""
    digest = hashlib.sha256(_as_text(own).encode()).hexdigest()
    return f"{digest[:32]}.json"


def _path(own: Fields) -> Path:
    return folder() / file_name(own)


def _read(path: Path) -> Fields | None:
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) and isinstance(entry.get("key"), dict) else None


def _write(path: Path, entry: Fields, *, replace: bool) -> None:
    """Puts a whole file in place; where one is there, replaces it or leaves it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(entry, file, indent=1)
        if replace:
            temporary.replace(path)
        else:
            with suppress(FileExistsError):
                path.hardlink_to(temporary)
    finally:
        temporary.unlink(missing_ok=True)
