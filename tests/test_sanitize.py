"""What compute-sanitizer is given to look at (sanitize.py) is right, and is all there is."""

import re
import shutil
import subprocess
import warnings
from typing import Any

import pytest

import sanitize
from im2win._library import PATH, check, ffi, lib
from targets import CUDA

pytestmark = pytest.mark.gpu
# 16-bit 5x5 windows without a stride have tensor cores' kernels where there are such.
BEFORE_TENSOR_CORES = re.compile(r"depthwise_slices_kernel<(__half|__nv_bfloat16), 5, 1, ")


def kernels() -> set[str]:
    """The names of all kernels in the library."""
    for tool in ("cuobjdump", "c++filt"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool} here")
    command = ["cuobjdump", "--dump-resource-usage", str(PATH)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = "\n".join(re.findall(r"Function (\S+):", listing))
    plain = subprocess.run(["c++filt"], input=names, capture_output=True, text=True, check=True)
    return set(plain.stdout.split("\n"))


def test_every_kernel_runs(torch: Any) -> None:
    properties = torch.cuda.get_device_properties(CUDA)
    if (properties.major, properties.multi_processor_count) != (9, 132):
        pytest.skip("tiles are chosen for an H200")
    check(lib.im2win_cuda_synchronize(CUDA, ffi.NULL))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            for algorithm, kind in sanitize.pairs():
                assert any(sanitize.run_all(algorithm, kind))
        ran = {event.key for event in profile.key_averages()}
    missing = {name for name in kernels() - ran if not BEFORE_TENSOR_CORES.search(name)}
    assert not missing, "\n".join(sorted(missing))
