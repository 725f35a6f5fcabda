"""PyTorch's own sample inputs and error inputs of its convolutions (its OpInfo)."""

import warnings
from importlib import import_module
from typing import Any

import pytest

import im2win
from frameworks import from_torch
from numerics import DTYPES, assert_close, tolerance
from targets import DEVICES

CONVOLUTIONS: dict[str, Any] = {
    "conv1d": im2win.conv1d,
    "conv2d": im2win.conv2d,
    "conv3d": im2win.conv3d,
}

# PyTorch, whose results are the expected ones, warns of how it works.
pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")


@pytest.fixture
def torch() -> Any:
    torch = pytest.importorskip("torch")
    pytest.importorskip("expecttest", reason="torch.testing._internal needs it")
    return torch


def operator(name: str) -> Any:
    """PyTorch's description of torch.nn.functional's function of this name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it imports warns of its own dependencies
        invocations = import_module("torch.testing._internal.common_methods_invocations")
    (found,) = [each for each in invocations.op_db if each.name == f"nn.functional.{name}"]
    return found


def channels_last(tensor: Any, dims: int) -> Any:
    """An equal tensor, its channels next to each other in memory."""
    return tensor.movedim(-dims - 1, -1).contiguous().movedim(-1, -dims - 1)


def check(torch: Any, name: str, sample: Any, last: bool) -> None:
    dims = int(name[4])
    tensors: list[Any] = [None if t is None else t.detach() for t in (sample.input, *sample.args)]
    if last:
        tensors[:2] = [channels_last(t, dims) for t in tensors[:2]]
    y = CONVOLUTIONS[name](*tensors, **sample.kwargs)
    assert (type(y), y.dtype, y.device) == (torch.Tensor, tensors[0].dtype, tensors[0].device)
    wide: list[Any] = [None if t is None else t.cpu().double() for t in tensors]
    peer = getattr(torch.nn.functional, name)
    exact = peer(*wide, **sample.kwargs)
    magnitude = peer(*(None if t is None else t.abs() for t in wide), **sample.kwargs)
    dtype, taps = str(y.dtype).removeprefix("torch."), wide[1][0].numel()
    sums = "float64" if dtype == "float64" else "float32"
    allowed = tolerance(exact.numpy(), magnitude.numpy(), dtype, sums, taps)
    assert_close(from_torch(y), exact.numpy(), allowed)


@pytest.mark.parametrize("last", [False, True], ids=["channels first", "channels last"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("device", DEVICES)
def test_samples(torch: Any, device: str, name: str, dtype: str, last: bool) -> None:
    """All of them, for the dtypes that a convolution here has: not complex, not integers."""
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    samples = list(operator(name).sample_inputs(device, getattr(torch, dtype)))
    assert len(samples) >= 10
    for sample in samples:
        check(torch, name, sample, last)


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("device", DEVICES)
def test_errors(torch: Any, device: str, name: str) -> None:
    """What PyTorch refuses is refused, whatever the message."""
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    errors = list(operator(name).error_inputs(device))
    assert len(errors) >= 10
    for error in errors:
        sample = error.sample_input
        with pytest.raises((TypeError, ValueError)):
            CONVOLUTIONS[name](sample.input, *sample.args, **sample.kwargs)
