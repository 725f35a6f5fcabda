"""One problem, as tensors of any framework."""

from itertools import product
from typing import Any

import numpy as np
import pytest

import im2win
from cuda_call import problem_of
from numerics import DTYPES, Array, assert_convolved, normal
from problems import Problem
from targets import CUDA, NO_ALGORITHM, Target

PROBLEM = Problem(n=2, c=6, h=7, w=9, k=8, padding=((1, 0), (2, 1)), stride=(1, 2), groups=2)


def arrays(problem: Problem, dtype: str) -> tuple[Array, Array]:
    """Input and weight."""
    return normal(problem.input_shape, dtype), normal(problem.weight_shape, dtype)


def convolve(problem: Problem, input: Any, weight: Any, **options: Any) -> Any:
    window = (problem.stride, problem.padding, problem.dilation, problem.groups)
    return im2win.conv2d(input, weight, None, *window, **options)


def to_torch(array: Array) -> Any:
    torch = pytest.importorskip("torch")
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def from_torch(tensor: Any) -> Array:
    torch = pytest.importorskip("torch")
    is_bfloat16 = tensor.dtype == torch.bfloat16
    array: Array = (tensor.view(torch.int16) if is_bfloat16 else tensor).cpu().numpy()
    return array.view(DTYPES["bfloat16"]) if is_bfloat16 else array


def cuda_cases() -> list[Any]:
    """(algorithm, dtype) of all that CUDA has."""
    cases = [
        (name, dtype)
        for name, dtype in product(im2win.algorithms("cuda"), DTYPES)
        if Target(CUDA, name).takes(problem_of(name), dtype)
    ]
    return [pytest.param(*c, marks=pytest.mark.gpu) for c in cases or [(NO_ALGORITHM, "float32")]]


class TorchCase:
    """A convolution by an algorithm, with PyTorch's CUDA tensors."""

    def __init__(self, algorithm: str, dtype: str, inputs: int = 1) -> None:
        self._problem, self._algorithm = problem_of(algorithm), algorithm
        shape = self._problem.input_shape
        self.inputs = [to_torch(normal(shape, dtype, i)).cuda() for i in range(inputs)]
        self.weight = to_torch(normal(self._problem.weight_shape, dtype)).cuda()
        self.expected = [self(x) for x in self.inputs]
        assert_convolved(
            from_torch(self.expected[0]),
            from_torch(self.inputs[0]),
            from_torch(self.weight),
            self._problem,
            algorithm,
        )

    def __call__(self, x: Any, weight: Any = None, **options: Any) -> Any:
        filters = self.weight if weight is None else weight
        return convolve(self._problem, x, filters, algorithm=self._algorithm, **options)

    def differences(self, y: Any, i: int = 0) -> Any:
        """How many bytes of it differ from the i-th result; on the device, not waited for."""
        torch = pytest.importorskip("torch")
        return (y.view(torch.uint8) != self.expected[i].view(torch.uint8)).sum()
