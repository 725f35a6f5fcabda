"""What someone else's kernel has broken is reported as an earlier kernel's, and takes nothing down:
the CPU goes on working, and the process ends as it should.
"""

from typing import Any

import pytest

from programs import run_python

pytestmark = pytest.mark.gpu
KERNELS = {
    "cudaErrorLaunchFailure": 'asm("trap;");',
    "cudaErrorIllegalAddress": "*(volatile int *)16 = 1;",
    "cudaErrorMisalignedAddress": "*(volatile int *)(data + 1) = 1;",
}
SCRIPT = """
import cupy, numpy as np, im2win
x, w = cupy.ones((1, 2, 4, 4), "f"), cupy.ones((3, 2, 3, 3), "f")
out = cupy.empty((1, 3, 2, 2), "f")
def convolve(algorithm): im2win.conv2d(x, w, algorithm=algorithm, out=out)
convolve("direct")
assert (out == 18).all()
plan = im2win.Conv2dPlan(x.shape, w.shape, device="cuda", algorithm="direct")
wreck = cupy.RawKernel('extern "C" __global__ void wreck(char *data) {{ {body} }}', "wreck")
wreck((1,), (1,), (out,))
try:
    cupy.cuda.Device().synchronize()
    raise SystemExit("the kernel did no harm")
except cupy.cuda.runtime.CUDARuntimeError:
    pass
uses = [lambda: convolve("direct"), lambda: convolve("implicit_gemm"), lambda: plan(x, w, out=out)]
uses.append(lambda: im2win.DeviceArray((1024,), "float32"))
for use in uses * 2:
    try:
        use()
        raise SystemExit("no error")
    except im2win.Im2winError as error:
        print(f"{{error.status}}: {{error}}")
y = im2win.conv2d(np.ones((1, 2, 4, 4), "f"), np.ones((3, 2, 3, 3), "f"))
assert (y == 18).all()
"""


@pytest.mark.parametrize("error", KERNELS)
def test_a_kernel_that_fails(cupy: Any, error: str) -> None:
    messages = run_python(SCRIPT.format(body=KERNELS[error])).splitlines()
    assert len(messages) == 8
    for message in messages:
        assert message.startswith("IM2WIN_CUDA_ERROR: "), message
        assert f": a kernel launched earlier in this process has failed: {error}: " in message
