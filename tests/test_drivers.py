"""Where NVIDIA's driver is missing or older than the library needs, one line says so."""

import os
import re
import shutil
import subprocess
import sys
from ctypes.util import find_library
from pathlib import Path

import pytest

import im2win

pytestmark = [
    pytest.mark.skipif(not im2win.algorithms("cuda"), reason="a build without CUDA"),
    pytest.mark.skipif(sys.platform != "linux", reason="needs ELF"),
]

# What the CUDA runtime asks of a driver before anything else.
DRIVER = """
int cuInit(unsigned flags) { return flags != 0; }
int cuDriverGetVersion(int* version) { *version = 12080; return 0; }
"""
PROGRAM = """
import numpy as np
import im2win
print(im2win.info().no_cuda)
x = np.ones((1, 1, 5, 5), np.float32)
w = np.ones((1, 1, 3, 3), np.float32)
try:
    im2win.conv2d(x, w, device="cuda")
except im2win.Im2winError as error:
    print(error.status, error)
print(im2win.conv2d(x, w).sum())
"""


def run(folder: Path) -> list[str]:
    """What the program prints where the driver's library is looked for in `folder` first."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    command = [sys.executable, "-c", PROGRAM]
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return output.stdout.splitlines()


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_an_older_driver_is_named(tmp_path: Path) -> None:
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(tmp_path / "libcuda.so.1")]
    subprocess.run(command, input=DRIVER, text=True, check=True)
    reason, error, value = run(tmp_path)
    assert re.fullmatch(
        r"the NVIDIA driver is too old: it supports CUDA 12\.8, and this libim2win was built with "
        r"CUDA 13\.\d+, which needs driver 580 or newer",
        reason,
    )
    assert (error, value) == (f"IM2WIN_NO_DEVICE {reason}", "81.0")


@pytest.mark.skipif(find_library("cuda") is not None, reason="there is a driver")
def test_a_missing_driver_is_named(tmp_path: Path) -> None:
    reason, error, value = run(tmp_path)
    assert reason == "there is no NVIDIA driver on this machine (libcuda.so.1 was not found)"
    assert (error, value) == (f"IM2WIN_NO_DEVICE {reason}", "81.0")
