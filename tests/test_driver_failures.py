"""The CUDA driver missing, old, without devices, or failing at any one of its calls: each gives a
status and a text, no output is written in part, and the next call works.

tests/failures/driver.cpp stands in for the driver, in interpreters of their own.
"""

import ctypes
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from ctypes.util import find_library
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import capi
import im2win
from cuda_call import CudaCall
from im2win._library import check, ffi, last_error, lib
from numerics import normal
from programs import run_python
from targets import CUDA

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs LD_LIBRARY_PATH"),
    pytest.mark.skipif(not im2win.algorithms("cuda"), reason="built without CUDA"),
]
OUT_OF_MEMORY, UNKNOWN = 2, 999  # as the driver numbers them


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with a libcuda.so.1 of driver.cpp."""
    if shutil.which("g++") is None:
        pytest.skip("no g++ here")
    folder = tmp_path_factory.mktemp("driver")
    source = Path(__file__).parent / "failures/driver.cpp"
    options = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["g++", *options, source, "-o", folder / "libcuda.so.1"], check=True)
    return folder


WITHOUT_A_DEVICE = """
import numpy as np, im2win
x, w = np.ones((1, 2, 4, 4), "f"), np.ones((3, 2, 3, 3), "f")
for _ in range(2):
    try:
        im2win.conv2d(x, w, device="cuda")
        raise SystemExit("no error")
    except im2win.Im2winError as error:
        assert error.status == "IM2WIN_NO_DEVICE", error.status
        assert str(error) == im2win.info().no_cuda, im2win.info()
assert (im2win.conv2d(x, w) == 18).all()
print(im2win.info().no_cuda)
"""


@pytest.mark.parametrize(
    ("version", "error", "text"),
    [
        (
            "12080",
            "0",
            r"the NVIDIA driver is too old: it supports CUDA 12\.8, and this libim2win was built "
            r"with CUDA 13\.\d+, which needs driver 580 or newer",
        ),
        ("99000", "100", "the NVIDIA driver sees no CUDA device: check nvidia-smi.*"),
        ("99000", "999", "the CUDA devices cannot be used: cudaErrorUnknown.*"),
    ],
)
def test_driver_without_a_device(stand_in: Path, version: str, error: str, text: str) -> None:
    printed = run_python(
        WITHOUT_A_DEVICE,
        LD_LIBRARY_PATH=str(stand_in),
        IM2WIN_TEST_DRIVER_VERSION=version,
        IM2WIN_TEST_DRIVER_ERROR=error,
    )
    assert re.fullmatch(text, printed.rstrip("\n"))


NO_DRIVER = "there is no NVIDIA driver on this machine (libcuda.so.1 was not found)\n"


def test_no_driver(tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_text("no library")
    assert run_python(WITHOUT_A_DEVICE, LD_LIBRARY_PATH=str(tmp_path)) == NO_DRIVER


@pytest.mark.skipif(find_library("cuda") is not None, reason="there is a driver")
def test_nothing_in_the_place_of_a_driver() -> None:
    assert run_python(WITHOUT_A_DEVICE) == NO_DRIVER


class Driver:
    """The stand-in that this process has loaded in the place of the driver."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self._library.im2win_test_failed.restype = ctypes.c_char_p

    def fail_each_call(
        self, call: Callable[[], int], examine: Callable[[int], None] = lambda status: None
    ) -> int:
        """Of the driver's calls that `call` makes, each fails in turn; returns how many there are.

        `call` returns a status, and `examine` looks at what it left behind.
        """
        assert call() == lib.IM2WIN_SUCCESS, last_error()  # and all is loaded
        for n in count():
            for error in (OUT_OF_MEMORY, UNKNOWN):
                self._library.im2win_test_fail(n, error)
                status = call()
                failed = self._library.im2win_test_failed().decode()
                self._library.im2win_test_fail(-1, 0)
                if not failed:
                    assert status == lib.IM2WIN_SUCCESS, last_error()
                    return n
                if status != lib.IM2WIN_SUCCESS:
                    assert status in (lib.IM2WIN_OUT_OF_MEMORY, lib.IM2WIN_CUDA_ERROR), failed
                    assert last_error(), failed
                examine(status)
                assert call() == lib.IM2WIN_SUCCESS, (failed, last_error())
                examine(lib.IM2WIN_SUCCESS)
        raise AssertionError


def fail_convolutions() -> None:
    driver = Driver()
    for algorithm in im2win.algorithms("cuda"):
        convolution = CudaCall(algorithm)
        counts = (
            driver.fail_each_call(convolution.make_plan),
            driver.fail_each_call(convolution.run, convolution.examine),
        )
        print(algorithm, *counts)


def allocate_and_free() -> int:
    """The status of what fails first; nothing is left behind."""
    pointer, null = ffi.new("void **"), ffi.NULL
    status: int = lib.im2win_cuda_alloc(CUDA, 1 << 20, null, pointer)
    assert (pointer[0] != null) == (status == lib.IM2WIN_SUCCESS)
    if status == lib.IM2WIN_SUCCESS:
        status = lib.im2win_cuda_free(CUDA, pointer[0], null)
        if status != lib.IM2WIN_SUCCESS:
            lib.im2win_cuda_free(CUDA, pointer[0], null)
    return status


def fail_other_calls() -> None:
    driver, text = Driver(), ffi.new("char[200]")
    numbers, null = normal((64,), "float32"), ffi.NULL
    memory = capi.Tensor(CUDA, numbers)
    device, host = capi.address(memory.address), capi.address(numbers.ctypes.data)
    calls: dict[str, Any] = {
        "alloc and free": allocate_and_free,
        "copy": lambda: lib.im2win_cuda_copy(CUDA, device, host, 256, null),
        "synchronize": lambda: lib.im2win_cuda_synchronize(CUDA, null),
        "describe": lambda: lib.im2win_device_describe(CUDA, text, 200),
    }
    for name, call in calls.items():
        print(name, driver.fail_each_call(call))


@pytest.mark.gpu
@pytest.mark.parametrize("script", [fail_convolutions, fail_other_calls])
def test_each_driver_call_fails(stand_in: Path, script: Callable[[], None]) -> None:
    check(lib.im2win_cuda_synchronize(CUDA, ffi.NULL))  # loads the driver
    maps = Path("/proc/self/maps").read_text(encoding="ascii", errors="replace")
    real = {line.split()[-1] for line in maps.splitlines() if "/libcuda.so" in line}
    printed = run_python(
        f"import test_driver_failures; test_driver_failures.{script.__name__}()",
        LD_LIBRARY_PATH=str(stand_in),
        IM2WIN_TEST_DRIVER=real.pop(),
    )
    print(printed)
    assert sum(int(line.split()[-1]) for line in printed.splitlines()) > 0
