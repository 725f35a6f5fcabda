"""The shared library as such: symbols, version, no GPU needed, instruction sets, fork."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import im2win
from im2win._library import PATH, ffi, lib
from programs import run_python
from targets import DEVICES

HEADER = Path(__file__).parents[1] / "libim2win/include/im2win/im2win.h"


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm")
@pytest.mark.skipif(PATH.suffix != ".so", reason="needs ELF")
def test_exports_are_the_headers_functions_and_nothing_else() -> None:
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", str(PATH)], capture_output=True, text=True, check=True
    ).stdout
    exported = {
        line.split()[-1].split("@")[0]
        for line in listing.splitlines()
        if line.split()[-2] != "A"  # the names of symbol versions
    }
    declared = re.findall(r"^IM2WIN_API .*?\b(im2win_\w+)\(", HEADER.read_text(), re.M)
    assert len(declared) > 15
    assert exported == set(declared)


def test_versions_agree() -> None:
    text = HEADER.read_text()
    major, minor, patch = (
        int(number) for number in re.findall(r"#define IM2WIN_VERSION_\w+ (\d+)", text)
    )
    assert lib.im2win_version() == major * 10000 + minor * 100 + patch
    assert im2win.__version__ == im2win.info().version == f"{major}.{minor}.{patch}"


def test_the_installed_package_has_that_version() -> None:
    installed = Path(im2win.__file__).parent.parent.glob("im2win-*.dist-info")
    assert [path.name for path in installed] in ([], [f"im2win-{im2win.__version__}.dist-info"])


def test_names_of_statuses() -> None:
    text = HEADER.read_text()
    named = re.findall(r"(IM2WIN_\w+) = (\d+),?\s+(?:/\*|\n)", text.split("} im2win_status;")[0])
    assert ("IM2WIN_SUCCESS", "0") in re.findall(r"(IM2WIN_\w+) = (\d+)", text)
    for name, value in named:
        assert ffi.string(lib.im2win_status_name(int(value))).decode() == name
    unknown = ffi.string(lib.im2win_status_name(1234)).decode()
    assert unknown == "not an im2win_status"


def test_info() -> None:
    info = im2win.info()
    assert Path(info.library).exists()
    assert next(iter(info.devices)) == "cpu"
    assert all(info.devices.values())
    assert info.algorithms == {kind: im2win.algorithms(kind) for kind in ("cpu", "cuda")}
    assert (info.no_cuda is None) == (len(info.devices) > 1)


@pytest.mark.parametrize("device", DEVICES)
def test_algorithms_end_with_the_one_for_everything(device: str) -> None:
    names = im2win.algorithms(device)
    assert names[-1] == "direct"
    assert len(set(names)) == len(names)


def test_runs_where_no_gpu_is_visible() -> None:
    """Loading the package starts no driver, and the CPU works without one."""
    script = """
import numpy as np, im2win
x, w = np.ones((1, 2, 4, 4), "f"), np.ones((3, 2, 3, 3), "f")
assert (im2win.conv2d(x, w) == 18).all()
info = im2win.info()
assert info.no_cuda and list(info.devices) == ["cpu"], info
"""
    run_python(script, CUDA_VISIBLE_DEVICES="")


def test_importing_imports_no_framework() -> None:
    """Whoever has a PyTorch tensor has imported PyTorch; nobody else shall wait for it."""
    script = """
import sys, numpy as np, im2win
im2win.conv2d(np.ones((1, 2, 4, 4), "f"), np.ones((3, 2, 3, 3), "f"))
print([m for m in ("torch", "cupy", "jax", "numba", "matplotlib", "rich") if m in sys.modules])
"""
    assert run_python(script) == "[]\n"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_stays_loaded_while_its_threads_live() -> None:
    """OpenMP's threads never end: closing the library, as Python does at its end, must not unload
    the code that they wait in."""
    script = """
import time, numpy as np, im2win
from im2win._library import ffi, lib, PATH
assert (im2win.conv2d(np.ones((4, 8, 32, 32), "f"), np.ones((16, 8, 3, 3), "f")) == 72).all()
ffi.dlclose(lib)
assert str(PATH.resolve()) in open("/proc/self/maps").read()
time.sleep(0.1)
"""
    run_python(script, OMP_NUM_THREADS="4")


def test_unknown_instruction_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IM2WIN_CPU_ISA", "mmx")
    with pytest.raises(ValueError, match=r'IM2WIN_CPU_ISA is "mmx": expected one of .*baseline'):
        im2win.Conv2dPlan((1, 1, 5, 5), (1, 1, 3, 3), algorithm="im2win")


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_works_in_a_forked_child() -> None:
    """As multiprocessing and data loaders fork after the first call; OpenMP would hang there."""
    script = """
import os, signal, numpy as np, im2win
x, w = np.ones((4, 8, 32, 32), "f"), np.ones((16, 8, 3, 3), "f")
assert (im2win.conv2d(x, w) == 72).all()
child = os.fork()
if child == 0:
    signal.alarm(60)
    os._exit(0 if (im2win.conv2d(x, w) == 72).all() else 1)
assert os.waitpid(child, 0)[1] == 0
assert (im2win.conv2d(x, w) == 72).all()
"""
    run_python(script, OMP_NUM_THREADS="4")
