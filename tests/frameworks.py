"""One problem, as tensors of any framework."""

from typing import Any

import numpy as np
import pytest

import im2win
from numerics import DTYPES, Array, normal
from problems import Problem

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
