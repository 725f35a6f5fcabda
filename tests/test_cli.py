"""The command line: what a newcomer runs first."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import im2win
from im2win.cli import app
from im2win.layers import LAYERS

TINY = ["bench", "--device", "cpu", "--layers", "conv12", "--repeats", "1"]


def invoke(*arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == status, result.output
    return result.output


def test_info() -> None:
    output = invoke("info")
    assert im2win.__version__ in output
    for text in (*im2win.info().devices.values(), *im2win.algorithms("cpu")):
        assert text in output


def test_check_passes() -> None:
    output = invoke("check", "--device", "cpu")
    assert all(name in output for name in im2win.algorithms("cpu"))


def test_check_fails_where_an_algorithm_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The status says so; a check that cannot fail is none."""
    from im2win import reference

    right = reference.conv2d
    monkeypatch.setattr(reference, "conv2d", lambda *a, **k: 1.001 * right(*a, **k))
    assert "failed" in invoke("check", "--device", "cpu", status=1)


@pytest.mark.gpu
def test_check_passes_on_the_gpu() -> None:
    output = invoke("check", "--device", "cuda:0")
    assert all(name in output for name in im2win.algorithms("cuda"))


def test_bench_writes_json(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    output = invoke(*TINY, "--json", str(path))
    assert "conv12" in output
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["version"] == im2win.__version__
    assert (document["device"], document["batch"], document["dtype"]) == ("cpu", 1, "float32")
    layer = LAYERS[-1]
    refusals = im2win.Conv2dPlan(layer.input_shape(1), layer.weight_shape).algorithms()
    taking = [name for name, reason in refusals.items() if reason is None]
    assert [r["algorithm"] for r in document["results"]] == taking
    for result in document["results"]:
        assert result["layer"] == "conv12"
        assert result["median_seconds"] > 0
        assert result["gflops"] > 0
        assert result["workspace_bytes"] >= 0
        assert 0 <= result["error"] <= result["error_bound"] < 1e-4


def test_bench_picks_algorithms_and_batch(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    invoke(*TINY, "--algorithms", "im2win", "--batch", "2", "--json", str(path))
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["batch"] == 2
    assert [r["algorithm"] for r in document["results"]] == ["im2win"]


def test_bench_says_why_a_named_algorithm_refuses(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    output = invoke(*TINY, "--algorithms", "depthwise,im2win", "--json", str(path))
    first, second = json.loads(path.read_text(encoding="utf-8"))["results"]
    assert "one input channel a group" in first["reason"]
    assert first["reason"] in output.replace("\n", " ")
    assert second["median_seconds"] > 0


def test_bench_draws_a_figure(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "figure.png"
    invoke(*TINY, "--plot", str(path))
    assert path.read_bytes().startswith(b"\x89PNG\r\n")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["bench", "--device", "tpu"], "tpu"),
        (["bench", "--layers", "conv13"], "conv13"),
        (["bench", "--device", "cpu", "--algorithms", "fft"], "fft"),
        (["bench", "--batch", "0"], "--batch"),
        (["check", "--device", "cuda:99"], "cuda:99"),
        (["nonesuch"], "nonesuch"),
    ],
    ids=" ".join,
)
def test_wrong_options(arguments: list[str], named: str) -> None:
    assert named in invoke(*arguments, status=2)


def test_as_a_module() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "im2win", "info"], capture_output=True, text=True, check=True
    )
    assert im2win.__version__ in result.stdout


def test_the_layers_are_the_papers() -> None:
    """Output sizes as its Table 2 has them."""
    sizes = [layer.output_size for layer in LAYERS]
    assert sizes == [55, 56, 111, 109, 20, 10, 222, 110, 54, 26, 12, 5]


@pytest.mark.skipif(im2win.info().no_cuda is None, reason="there is a CUDA device")
@pytest.mark.parametrize("command", ["check", "bench"])
def test_a_missing_device_is_said_to_be_missing(command: str) -> None:
    output = invoke(command, "--device", "cuda", status=2)
    assert "CUDA" in output or "driver" in output
