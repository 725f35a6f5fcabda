"""What libim2win/cmake/hardening.cmake asks for is in the library, and it links what it may."""

import re
import shutil
import subprocess

import pytest

from im2win._library import PATH
from targets import UNDER_ASAN

pytestmark = [
    pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf"),
    pytest.mark.skipif(PATH.suffix != ".so", reason="needs ELF"),
    pytest.mark.skipif(UNDER_ASAN, reason="a sanitizer build"),
]

# The C and C++ runtimes and OpenMP's. CUDA's is linked statically, its driver found at run time.
LINKED = r"(lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|g?omp(-[0-9a-f]+)?)|ld-linux[-\w]*)\.so[.\d]*"


def readelf(*options: str) -> str:
    command = ["readelf", "--wide", *options, str(PATH)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_tables_of_addresses_are_read_only_once_it_is_loaded() -> None:
    assert "GNU_RELRO" in readelf("--program-headers")
    assert re.search(r"BIND_NOW|FLAGS.*\bNOW\b", readelf("--dynamic"))


def test_no_memory_is_both_written_and_executed() -> None:
    headers = readelf("--program-headers")
    (stack,) = re.findall(r"GNU_STACK.* ([RWE]+) +0x\w+$", headers, re.M)
    assert stack == "RW"
    assert not re.findall(r"LOAD .* RWE ", headers)


def test_stacks_are_guarded() -> None:
    """What _FORTIFY_SOURCE checks, the compiler sees to be right: no call of it is left to find."""
    assert "__stack_chk_fail" in readelf("--dyn-syms")


def test_links_nothing_but_language_runtimes() -> None:
    dynamic = readelf("--dynamic")
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    assert needed
    assert [name for name in needed if not re.fullmatch(LINKED, name)] == []
    assert not re.findall(r"\((?:RPATH|RUNPATH)\).*\[(?!\$ORIGIN)", dynamic)  # of this machine
