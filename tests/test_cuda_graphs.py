"""CUDA graphs of every algorithm, as PyTorch and CuPy capture them: made of kernels alone, so that
nothing is allocated or waited for, and with the same bits in a thousand replays on changed inputs.
"""

import ctypes
from typing import Any

import numpy as np
import pytest

import im2win
from cuda_call import dtype_of, problem_of
from frameworks import TorchCase, convolve, cuda_cases
from numerics import normal
from programs import run_python
from targets import NO_ALGORITHM

pytestmark = pytest.mark.gpu
REPLAYS = 1000
KERNEL = 0  # a CUgraphNodeType


def node_types(graph: int) -> set[int]:
    """Of a CUgraph."""
    driver, count, found = ctypes.CDLL("libcuda.so.1"), ctypes.c_size_t(), set()
    handle = ctypes.c_void_p(graph)
    assert driver.cuGraphGetNodes(handle, None, ctypes.byref(count)) == 0
    nodes = (ctypes.c_void_p * count.value)()
    assert driver.cuGraphGetNodes(handle, nodes, ctypes.byref(count)) == 0
    for node in nodes:
        kind = ctypes.c_int()
        assert driver.cuGraphNodeGetType(ctypes.c_void_p(node), ctypes.byref(kind)) == 0
        found.add(kind.value)
    return found


@pytest.mark.parametrize(("algorithm", "dtype"), cuda_cases())
def test_pytorch(torch: Any, algorithm: str, dtype: str) -> None:
    case = TorchCase(algorithm, dtype, inputs=8)
    static, out = case.inputs[0].clone(), torch.empty_like(case.expected[0])
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        case(static, out=out)
    assert node_types(graph.raw_cuda_graph()) == {KERNEL}
    graph.instantiate()
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    for i in range(REPLAYS):
        static.copy_(case.inputs[i % 8])
        out.fill_(float("nan"))
        graph.replay()
        wrong += case.differences(out, i % 8)
    assert wrong.item() == 0


@pytest.mark.parametrize("algorithm", im2win.algorithms("cuda") or (NO_ALGORITHM,))
def test_cupy(cupy: Any, algorithm: str) -> None:
    """In the mode that refuses what could allocate or wait, in this thread or any other."""
    problem, dtype = problem_of(algorithm), dtype_of(algorithm)
    inputs = [cupy.asarray(normal(problem.input_shape, dtype, i)) for i in range(8)]
    weight = cupy.asarray(normal(problem.weight_shape, dtype))
    expected = [convolve(problem, x, weight, algorithm=algorithm) for x in inputs]
    static, out, wrong = inputs[0].copy(), cupy.empty_like(expected[0]), cupy.zeros((), np.int64)
    cupy.cuda.Device().synchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        convolve(
            problem, static, weight, algorithm=algorithm, out=out
        )  # CuPy's pool has memory now
        stream.begin_capture(cupy.cuda.runtime.streamCaptureModeGlobal)
        convolve(problem, static, weight, algorithm=algorithm, out=out)
        graph = stream.end_capture()
        for i in range(REPLAYS):
            static[...] = inputs[i % 8]
            out[...] = np.nan
            graph.launch(stream)
            wrong += (out.view(np.uint8) != expected[i % 8].view(np.uint8)).sum()
        stream.synchronize()
    assert int(wrong) == 0


FIRST_CALLS = """
import torch, im2win
import frameworks, cuda_call
for algorithm in im2win.algorithms("cuda"):
    problem, dtype = cuda_call.problem_of(algorithm), cuda_call.dtype_of(algorithm)
    x, weight = (frameworks.to_torch(a).cuda() for a in frameworks.arrays(problem, dtype))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = frameworks.convolve(problem, x, weight, algorithm=algorithm)
    graph.replay()
    assert torch.equal(y, frameworks.convolve(problem, x, weight, algorithm=algorithm)), algorithm
"""


def test_first_calls_are_captured(torch: Any) -> None:
    """A plan made and kernels loaded during the capture."""
    run_python(FIRST_CALLS)
