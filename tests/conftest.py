"""Shared by all tests: GPU tests skip, and say why, where there is no CUDA device."""

from collections.abc import Iterator
from pathlib import Path
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


@pytest.fixture(autouse=True, scope="session")
def no_tuning(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What this machine's user has measured is not what is tested."""
    folder = tmp_path_factory.mktemp("tuning") / "cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IM2WIN_CACHE_DIR", str(folder))
        patch.delenv("IM2WIN_LOG", raising=False)
        yield folder
