"""The ABI as text: the size and layout of every struct, every constant, every function.

`python tests/abi.py` writes that of the header and the built library to libim2win/abi.txt. It does
not overwrite another ABI of the same version: raise the version first or, while that version is
unreleased, delete the file.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import im2win
from im2win._library import ffi, lib

SNAPSHOT = Path(__file__).parents[1] / "libim2win/abi.txt"


def snapshot() -> str:
    """What a program compiled against this library relies on, a line for each."""
    parts = (_structs(), _constants(), _functions())
    lines = [f"version {im2win.__version__}", *(line for part in parts for line in part)]
    return "\n".join(lines) + "\n"


def may_replace(old: str, new: str) -> bool:
    """Whether the versions differ, or nothing does."""
    return old == new or old.splitlines()[0] != new.splitlines()[0]


def structs() -> Iterator[tuple[str, Any]]:
    """The structs that callers see into, by name."""
    for name in ffi.list_types()[0]:
        ctype = ffi.typeof(name)
        if ctype.kind == "struct" and _is_complete(ctype):
            yield name, ctype


def _is_complete(ctype: Any) -> bool:
    try:
        return bool(ffi.sizeof(ctype))
    except ffi.error:  # opaque
        return False


def _structs() -> Iterator[str]:
    for name, ctype in structs():
        yield f"struct {name}: {ffi.sizeof(ctype)} bytes"
        for field, info in ctype.fields:
            yield f"  {field}: {info.type.cname} at {info.offset}"


def _constants() -> Iterator[str]:
    for name in sorted(dir(lib)):
        if isinstance(getattr(lib, name), int):
            yield f"constant {name}: {getattr(lib, name)}"


def _functions() -> Iterator[str]:
    for name in sorted(dir(lib)):
        if not isinstance(getattr(lib, name), int):
            yield f"function {name}: {ffi.typeof(getattr(lib, name)).cname}"


if __name__ == "__main__":
    text = snapshot()
    if SNAPSHOT.exists() and not may_replace(SNAPSHOT.read_text(), text):
        sys.exit(f"the ABI has changed, but not the version: {SNAPSHOT} is left as it is")
    SNAPSHOT.write_text(text)
