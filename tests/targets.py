"""What to test on: the devices, and every algorithm of each.

A build or machine without CUDA still lists the tests that would need it, as skipped.
"""

import os
from typing import Any, NamedTuple

import pytest

import capi
import im2win
from capi import CPU
from numerics import Array
from problems import Problem

CUDA = 0  # the ordinal of the device that tests run on
DEVICES = [pytest.param("cpu"), pytest.param("cuda", marks=pytest.mark.gpu)]
NO_ALGORITHM = "none built"
UNDER_ASAN = "asan" in os.environ.get("LD_PRELOAD", "")  # as .ci/run does it


class Target(NamedTuple):
    """An algorithm of a device."""

    device: int
    algorithm: str

    @property
    def device_name(self) -> str:
        return "cpu" if self.device == CPU else "cuda"

    def __str__(self) -> str:
        return f"{self.device_name}-{self.algorithm}"

    def run(self, problem: Problem, x: Array, weight: Array, **options: Any) -> Array:
        """capi.run; skips the test where the algorithm refuses, which `direct` may not."""
        try:
            return capi.run(
                problem, x, weight, device=self.device, algorithm=self.algorithm, **options
            )
        except im2win.Im2winError as error:
            if self.algorithm == "direct" or error.status != "IM2WIN_UNSUPPORTED":
                raise
            pytest.skip(str(error))

    def takes(self, problem: Problem, dtype: str = "float32", **fields: Any) -> bool:
        desc = capi.descriptor(problem, dtype, **fields)
        return capi.accepts(desc, self.device, self.algorithm)


TARGETS = [
    *(Target(CPU, name) for name in im2win.algorithms("cpu")),
    *(Target(CUDA, name) for name in im2win.algorithms("cuda")),
]
_NO_CUDA = [] if im2win.algorithms("cuda") else [Target(CUDA, NO_ALGORITHM)]


def param(target: Target, *values: Any) -> Any:
    """A pytest.param of the target and the values, with a GPU's marker and a readable name."""
    marks = [] if target.device == CPU else [pytest.mark.gpu]
    return pytest.param(target, *values, marks=marks, id="-".join(map(str, (target, *values))))


def all_targets() -> list[Any]:
    return [param(target) for target in TARGETS + _NO_CUDA]


def accepted(problems: list[Problem], dtypes: tuple[str, ...] = ("float32",)) -> list[Any]:
    """(target, problem, dtype), for every algorithm and all of these that it takes."""
    cases = [(t, p, d) for t in TARGETS for p in problems for d in dtypes if t.takes(p, d)]
    placeholders = [(target, problems[0], dtypes[0]) for target in _NO_CUDA]
    return [param(*case) for case in cases + placeholders]
