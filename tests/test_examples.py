"""The examples in Python, and those in compiled languages that need nothing but a compiler.

ctest builds the latter again, and Rust's and Go's, as their users do.
"""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import im2win
from numerics import Array, generator
from programs import ROOT, build

EXAMPLES = ROOT / "examples"
MODULES = [pytest.param("numpy"), pytest.param("cupy", marks=pytest.mark.gpu)]


def load(folder: str, name: str) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES / folder)
        return import_module(name)


def run(folder: str, name: str, *arguments: object) -> str:
    command = [sys.executable, str(EXAMPLES / folder / name), *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert result.returncode == 0, result.stderr
    return result.stdout


def signal_convolution(data: Array, filt: Array, mode: str, strides: tuple[int, ...]) -> Array:
    """By its definition: each tap of the filter adds the data, shifted."""
    sizes = zip(data.shape, filt.shape, strict=True)
    full = np.zeros([m + n - 1 for m, n in sizes], data.dtype)
    for tap in np.ndindex(filt.shape):
        shifted = tuple(slice(t, t + m) for t, m in zip(tap, data.shape, strict=True))
        full[shifted] += filt[tap] * data
    if mode == "valid":
        full = full[tuple(slice(n - 1, 1 - n or None) for n in filt.shape)]
    return full[tuple(slice(None, None, stride) for stride in strides)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("mode", ["full", "valid"])
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("module", MODULES)
def test_sigpy_convolve(module: str, dims: int, mode: str, dtype: str) -> None:
    xp = pytest.importorskip(module)
    convolve = load("sigpy_convolve", "convolve").convolve
    random = generator(dims, mode, dtype)
    data = random.integers(-4, 5, (2, 3, 7, 8, 9)[: dims + 2]).astype(dtype)
    filt = random.integers(-4, 5, (2, 3, 3, 2, 4)[: dims + 2]).astype(dtype)
    if dtype.startswith("complex"):
        data += 1j * random.integers(-4, 5, data.shape).astype(data.real.dtype)
        filt += 1j * random.integers(-4, 5, filt.shape).astype(data.real.dtype)
    strides = (2, 1, 2)[:dims]

    def reference(plane: Array, taps: Array) -> Array:
        return signal_convolution(plane, taps, mode, strides)

    one = convolve(xp.asarray(data), xp.asarray(filt[0, 0]), mode, strides)
    expected = np.array([[reference(plane, filt[0, 0]) for plane in image] for image in data])
    np.testing.assert_array_equal(one if module == "numpy" else one.get(), expected)

    many = convolve(xp.asarray(data), xp.asarray(filt), mode, strides, multi_channel=True)
    channels = range(data.shape[1])
    expected = np.array(
        [[sum(reference(image[c], taps[c]) for c in channels) for taps in filt] for image in data]
    )
    np.testing.assert_array_equal(many if module == "numpy" else many.get(), expected)


@pytest.mark.parametrize("module", MODULES)
def test_sigpy_convolve_runs(module: str) -> None:
    pytest.importorskip(module)
    assert "(4, 10, 10)" in run("sigpy_convolve", "convolve.py", module)


@pytest.mark.parametrize("options", [(), pytest.param(("--cuda",), marks=pytest.mark.gpu)])
def test_edge_detection_runs(options: tuple[str, ...], tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    if options:
        pytest.importorskip("cupy")
    target = tmp_path / "edges.png"
    run("edge_detection", "edge_detection.py", EXAMPLES / "image.pgm", target, *options)
    found = np.asarray(image.open(target))
    assert found.shape == (32, 48)
    assert found[16, 14] == 0  # inside of the disc
    assert found[16, 5] == 255  # its edge
    assert found[2:4, 20:28].max() == 0  # the ramp behind it


@pytest.mark.parametrize("module", MODULES)
def test_edges(module: str) -> None:
    pytest.importorskip("PIL")
    xp = pytest.importorskip(module)
    example = load("edge_detection", "edge_detection")
    image = generator("edges").integers(0, 256, (20, 31, 3)).astype(np.uint8)

    planes = np.pad(image.transpose(2, 0, 1), ((0, 0), (3, 3), (3, 3)), mode="edge")
    blurred = correlate(planes.astype(np.float64), example.BLUR)
    changes = [correlate(blurred, sobel) - example.THRESHOLD for sobel in example.DIRECTIONS]
    squares = sum(np.maximum(change, 0) ** 2 for change in changes)
    expected = np.minimum(example.GAIN * np.sqrt(squares).max(axis=0), 255)
    found = example.edges(xp.asarray(image), xp)
    np.testing.assert_allclose(found if module == "numpy" else found.get(), expected, atol=1e-2)


def correlate(planes: Array, window: Array) -> Array:
    views = np.lib.stride_tricks.sliding_window_view(planes, window.shape, axis=(1, 2))
    sums: Array = np.einsum("cyxrs,rs->cyx", views, window)
    return sums


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_resnet50_agrees_with_pytorch(device: str) -> None:
    pytest.importorskip("torch")
    options = ("--batch", 1, "--size", 64, "--repeats", 1, "--device", device)
    output = run("resnet50", "resnet50.py", *options)
    assert len(output.splitlines()) == 3


@pytest.mark.parametrize(
    ("compiler", "option", "sources"),
    [
        ("cc", "-std=c99", ["c/edges.c"]),
        ("c++", "-std=c++17", ["cpp/edges.cpp"]),
        ("gfortran", "-std=f2018", ["fortran/im2win.f90", "fortran/edges.f90"]),
    ],
)
def test_edges_in(compiler: str, option: str, sources: list[str], tmp_path: Path) -> None:
    program = build(compiler, [option], [EXAMPLES / source for source in sources], tmp_path)
    command = [str(program), str(EXAMPLES / "image.pgm")]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[0].startswith("cpu: ")
    assert lines[1].startswith("cuda: " if im2win.info().no_cuda is None else "no GPU: ")
