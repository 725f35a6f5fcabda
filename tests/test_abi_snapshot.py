"""Programs compiled against this version of the library run with every build of it."""

import shutil
import subprocess

import pytest

import abi
from im2win._library import ffi
from test_abi import HEADER


def test_abi_is_that_of_this_version() -> None:
    expected = abi.SNAPSHOT.read_text()
    assert abi.snapshot() == expected, (
        f"the ABI is not that of {expected.splitlines()[0]}: see tests/abi.py"
    )


def test_another_abi_needs_another_version() -> None:
    old = abi.snapshot()
    changed = old.replace("padding_top: int64_t at 88", "padding_top: int32_t at 88")
    assert changed != old
    assert abi.may_replace(old, old)
    assert not abi.may_replace(old, changed)
    assert abi.may_replace(old, changed.replace("version ", "version 9", 1))


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_compiler_lays_structs_out_alike() -> None:
    """The snapshot is made by cffi, which follows the same rules without asking a compiler."""
    facts = []
    for name, ctype in abi.structs():
        facts.append(f"sizeof({name}) == {ffi.sizeof(ctype)}")
        facts += (f"offsetof({name}, {field}) == {info.offset}" for field, info in ctype.fields)
    assert len(facts) > 40
    source = f'#include "{HEADER}"\n' + "".join(
        f'_Static_assert({fact}, "{fact}");\n' for fact in facts
    )
    command = ["cc", "-std=c11", "-fsyntax-only", "-x", "c", "-"]
    result = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
