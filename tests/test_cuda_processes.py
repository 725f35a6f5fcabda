"""CUDA in processes that fork, and in interpreters that end with its memory and plans in use."""

import pytest

from programs import run_python

pytestmark = pytest.mark.gpu
ONES = """
import os, signal, sys, threading, numpy as np, im2win
x, w = np.ones((4, 8, 32, 32), "f"), np.ones((16, 8, 3, 3), "f")
def convolve(**options): assert (im2win.conv2d(x, w, **options) == 72).all()
convolve(device="cuda")
"""
SCRIPTS = {
    "forked after use": """
child = os.fork()
if child == 0:
    signal.alarm(60)
    status = 1
    try:
        convolve()
        convolve(device="cuda")
    except im2win.Im2winError as error:  # CUDA does not survive a fork
        status = 0 if error.status == "IM2WIN_CUDA_ERROR" else 2
    finally:
        os._exit(status)
status = os.waitpid(child, 0)[1]
assert status == 0, status
convolve(device="cuda")
""",
    "memory that outlives the interpreter": """
sys.last = im2win.DeviceArray.from_numpy(x)
""",
    "used by what the interpreter destroys last": """
class Last:
    def __init__(self):
        self.plan = im2win.Conv2dPlan(x.shape, w.shape, device="cuda")
        self.given = im2win.DeviceArray.from_numpy(x), im2win.DeviceArray.from_numpy(w)
    def __del__(self): self.plan(*self.given)
sys.last = Last()
""",
    "left running by a daemon": """
def work():
    while True: convolve(device="cuda")
threading.Thread(target=work, daemon=True).start()
threading.Event().wait(0.2)
""",
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_process(script: str) -> None:
    assert run_python(ONES + script) == ""
