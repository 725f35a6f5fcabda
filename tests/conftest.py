"""Shared by all tests: GPU tests skip, and say why, where there is no CUDA device."""

from typing import Any

import hypothesis
import pytest

import im2win

pytest.register_assert_rewrite("capi", "numerics", "targets")  # as asserts of the tests are

# The same examples on every run; no deadline, as sanitizers are slow. To look for new ones:
# pytest --hypothesis-profile=explore
hypothesis.settings.register_profile(
    "same", derandomize=True, database=None, deadline=None, max_examples=60
)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=2000)
hypothesis.settings.load_profile("same")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = im2win.info().no_cuda
    if reason is None:
        return
    skip = pytest.mark.skip(reason=f"no CUDA device: {reason}")
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(skip)


@pytest.fixture
def torch() -> Any:
    """PyTorch, which can use CUDA."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    return torch


@pytest.fixture
def cupy() -> Any:
    return pytest.importorskip("cupy")
