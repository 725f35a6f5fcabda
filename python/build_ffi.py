"""Generates im2win/_ffi.py, the cffi declarations of the C library, from its public header.

Run by the build as `python build_ffi.py HEADER OUTPUT`. The module is out-of-line and in ABI mode:
it needs no compiler, serves every Python version, and cannot drift from the header.
"""

import re
import sys
from pathlib import Path

import cffi


def declarations(header: str) -> str:
    """The part of the header that cffi reads: C without preprocessor, linkage and export macros."""
    without_linkage = re.sub(r"^#ifdef __cplusplus\n.*?^#endif\n", "", header, flags=re.M | re.S)
    without_directives = re.sub(r"^#.*\n", "", without_linkage, flags=re.M)
    return without_directives.replace("IM2WIN_API ", "")


def main(header: Path, output: Path) -> None:
    ffi = cffi.FFI()
    ffi.cdef(declarations(header.read_text(encoding="utf-8")))
    ffi.set_source("im2win._ffi", None)
    ffi.emit_python_code(str(output))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
