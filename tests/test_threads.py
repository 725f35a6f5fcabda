"""The Python face from many threads, in forked children, and at both ends of an interpreter."""

import gc
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import im2win
from im2win._dispatch import plan_for
from numerics import integers
from targets import UNDER_ASAN

ONES = """
import numpy as np
x, w = np.ones((4, 8, 32, 32), "f"), np.ones((16, 8, 3, 3), "f")
def right(y): assert (y == 72).all()
"""

SCRIPTS = {
    "imported and not used": "import im2win",
    "imported by a thread": """
import threading
def work():
    import im2win
    right(im2win.conv2d(x, w))
thread = threading.Thread(target=work)
thread.start(), thread.join()
import im2win
right(im2win.conv2d(x, w))
""",
    "used at exit": """
import atexit
atexit.register(lambda: right(im2win.conv2d(x, w)))
import im2win
right(im2win.conv2d(x, w))
""",
    "used by what the interpreter destroys last": """
import sys, im2win
class Last:
    def __init__(self): self.plan, self.x, self.w = im2win.Conv2dPlan(x.shape, w.shape), x, w
    def __del__(self): self.plan(self.x, self.w)
sys.last = Last()
""",
    "left running by a daemon": """
import threading, time, im2win
def work():
    while True: im2win.conv2d(x, w)
threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
""",
    "imported twice": """
import sys, im2win
first = im2win.Conv2dPlan(x.shape, w.shape)
for name in [n for n in sys.modules if n.split(".")[0] == "im2win"]: del sys.modules[name]
import im2win
right(im2win.conv2d(x, w)), right(first(x, w))
""",
    "in a pool of forked processes": """
import im2win, multiprocessing
def work(i): return float(im2win.conv2d(x, w).max())
right(im2win.conv2d(x, w))
with multiprocessing.get_context("fork").Pool(3) as pool:
    assert pool.map(work, range(9)) == [72] * 9
right(im2win.conv2d(x, w))
""",
    "forked while threads work": """
import os, signal, threading, im2win
def work():
    for _ in range(50): right(im2win.conv2d(x, w))
threads = [threading.Thread(target=work) for _ in range(4)]
for t in threads: t.start()
for _ in range(5):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        right(im2win.conv2d(x, w))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
for t in threads: t.join()
""",
}


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_import_use_and_exit(script: str) -> None:
    """In any order: no error, no message, no hang."""
    if UNDER_ASAN and "fork" in script:
        pytest.skip("the sanitizer's allocator may be locked when a child is forked")
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "4"}
    result = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", ONES + script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_sixteen_threads_share_the_plan_cache() -> None:
    """More problems than it holds, so that plans are dropped while others use them."""
    count = plan_for.cache_parameters()["maxsize"] * 5 // 4
    weight = integers((3, 2, 3, 3), "float32")
    inputs = [integers((1, 2, 3 + i % 7, 3 + i // 7), "float32", i) for i in range(count)]
    expected = [im2win.conv2d(x, weight) for x in inputs]

    def work(thread: int) -> bool:
        order = np.random.default_rng(thread).permutation(count)
        some = order[: count // 32]
        return all(np.array_equal(im2win.conv2d(inputs[i], weight), expected[i]) for i in some)

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(work, range(16)))


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
@pytest.mark.skipif(UNDER_ASAN, reason="freed memory is kept")
def test_plans_leave_nothing_behind() -> None:
    def make(count: int) -> None:
        for _ in range(count):
            im2win.Conv2dPlan((1, 8, 9, 9), (8, 8, 3, 3))
        gc.collect()

    make(500)
    before = _resident_bytes()
    make(5000)
    assert _resident_bytes() - before < 2**20
