"""The tuning cache: what plans take from it, and what nobody can make of it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import im2win
from im2win import _native, _tuning
from im2win.cli import app, trial
from im2win.cli.memory import TensorMemory
from im2win.layers import LAYERS, NETWORKS
from numerics import generator

SHAPES = ((2, 16, 20, 20), (8, 16, 3, 3))  # which `im2win` takes by default, and `direct` takes too


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("IM2WIN_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IM2WIN_LOG", "problems")


def plan(**options: Any) -> im2win.Conv2dPlan:
    return im2win.Conv2dPlan(*SHAPES, **options)


def taking() -> list[str]:
    """The algorithms that take the problem, which is not recorded by this."""
    reasons = plan(algorithm="direct").algorithms()
    return [name for name, reason in reasons.items() if reason is None]


def key_of(monkeypatch: pytest.MonkeyPatch, **options: Any) -> dict[str, Any]:
    """The key of a plan's problem, by way of recording it."""
    with monkeypatch.context() as patch:
        patch.setenv("IM2WIN_LOG", "problems")
        plan(**options)
    (entry,) = _tuning.entries()
    key: dict[str, Any] = entry["key"]
    return key


def tune(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["tune", "--device", "cpu", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_a_plan_takes_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    assert plan().algorithm == "im2win"
    _tuning.store(key_of(monkeypatch), "direct", {})
    assert plan().algorithm == "direct"
    assert plan(algorithm="im2win").algorithm == "im2win"  # who names one gets it
    random = generator("tuning")
    image, weight = (random.integers(-3, 4, shape).astype(np.float32) for shape in SHAPES)
    expected = im2win.conv2d(image, weight, algorithm="im2win")
    np.testing.assert_array_equal(plan()(image, weight), expected)


@pytest.mark.parametrize(
    "options",
    [
        {"padding": 1},
        {"stride": 2},
        {"dtype": "float64"},
        {"math": "ieee"},
        {"threads": 1},
        {"workspace_limit": 1 << 20},
        {"bias": True},
        {"activation": "relu"},
        {"layout": "NHWC"},
    ],
    ids=str,
)
def test_a_choice_is_for_one_problem(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    _tuning.store(key_of(monkeypatch), "direct", {})
    if options == {"layout": "NHWC"}:
        other = im2win.Conv2dPlan((2, 20, 20, 16), (8, 3, 3, 16), layout="NHWC")
    else:
        other = plan(**options)
    assert other.algorithm == "im2win"
    assert plan().algorithm == "direct"


def test_a_choice_is_for_packed_filters_or_others(monkeypatch: pytest.MonkeyPatch) -> None:
    _tuning.store(key_of(monkeypatch), "direct", {})
    assert plan().pack(np.ones(SHAPES[1], np.float32)).algorithm == "im2win"


@pytest.mark.parametrize(
    ("name", "replacement"),
    [
        ("device_description", lambda device: "another processor"),
        ("version", lambda: "99.0.0"),
    ],
)
def test_a_choice_is_for_one_machine_and_version(
    monkeypatch: pytest.MonkeyPatch, name: str, replacement: Any
) -> None:
    _tuning.store(key_of(monkeypatch), "direct", {})
    monkeypatch.setattr(_tuning, name, replacement)
    assert plan().algorithm == "im2win"


def test_the_driver_is_part_of_the_key_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    desc, options = _native.new_desc(), _native.new_options(0)
    keys = []
    for driver in ("580.1", "590.1"):
        monkeypatch.setattr(_tuning, "_driver_version", lambda driver=driver: driver)
        keys.append(_tuning.file_name(_tuning.key(desc, options)))
    assert keys[0] != keys[1]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe\x00",
        b"null",
        b"[]",
        b"[" * 100_000,
        b'{"algorithm": "direct"}',
        b'{"key": [], "algorithm": "direct"}',
        b'{"key": {"device": "x"}, "algorithm": "direct"}',
    ],
    ids=lambda content: repr(content[:20]),
)
def test_what_is_corrupt_is_ignored(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    key = key_of(monkeypatch)
    path = _tuning.folder() / _tuning.file_name(key)
    path.write_bytes(content)
    assert plan().algorithm == "im2win"
    tune()  # neither does it stop this
    if not content.startswith(b'{"key": {'):  # of which nobody knows that it is none
        assert key_of(monkeypatch) == key  # recorded anew


@pytest.mark.parametrize("algorithm", ["depthwise", "fft", "", 7, None])
def test_a_choice_that_does_not_hold_is_ignored(
    monkeypatch: pytest.MonkeyPatch, algorithm: Any
) -> None:
    """Of another build, say, which refuses it or has none of this name."""
    _tuning.store(key_of(monkeypatch), algorithm, {})
    assert plan().algorithm == "im2win"


def test_entries_that_are_no_problems_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    key = key_of(monkeypatch)
    changes: list[dict[str, Any]]
    changes = [{"n": -1}, {"n": 2**70}, {"none": 1}, {"dtype": 9}, {"k": "8"}]
    for n, change in enumerate(changes):
        wrong = {**key, "problem": {**key["problem"], **change}}
        (_tuning.folder() / f"wrong{n}.json").write_text(json.dumps({"key": wrong}))
    output = tune()
    assert output.count("float32 2x16x20x20") == 1


WRITER = """
import sys
from im2win import _tuning
key = {"shared": True}
for i in range(200):
    _tuning.store(key, sys.argv[1] * 1000, {"x" * 1000: 1.0})
    _tuning.store({"own": sys.argv[1], "i": i % 10}, sys.argv[1], {})
"""


def test_processes_write_at_once(cache: Path) -> None:
    """What is read meanwhile is whole, and no process undoes what another one stored."""
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, name]) for name in "ab"]
    shared = cache / _tuning.file_name({"shared": True})
    reads = 0
    while any(writer.poll() is None for writer in writers):
        if shared.exists():
            assert json.loads(shared.read_text())["algorithm"] in ("a" * 1000, "b" * 1000)
            reads += 1
    assert [writer.returncode for writer in writers] == [0, 0]
    assert reads > 0
    assert len(list(_tuning.entries())) == 1 + 2 * 10
    assert len(list(cache.iterdir())) == 1 + 2 * 10  # and nothing temporary


def test_plans_neither_measure_nor_write(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a plan has convolved")

    monkeypatch.setattr(_native, "convolve", refuse)
    plan()
    assert not cache.exists()
    _tuning.store(key_of(monkeypatch), "direct", {})
    before = {path: path.stat().st_mtime_ns for path in cache.iterdir()}
    assert plan().algorithm == "direct"
    assert {path: path.stat().st_mtime_ns for path in cache.iterdir()} == before


def test_plans_need_no_package_for_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IM2WIN_CACHE_DIR")
    monkeypatch.setitem(sys.modules, "platformdirs", None)  # which makes its import fail
    assert plan().algorithm == "im2win"


@pytest.mark.usefixtures("recording")
def test_problems_are_recorded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        plan()
    plan(algorithm="direct")  # chosen by its user
    im2win.Conv2dPlan((0, *SHAPES[0][1:]), SHAPES[1])
    assert len(list(_tuning.entries())) == 1
    _tuning.store(key_of(monkeypatch), "direct", {})
    plan()
    (entry,) = _tuning.entries()
    assert entry["algorithm"] == "direct"  # as it was


@pytest.mark.usefixtures("recording")
def test_every_kind_of_convolution_is_recorded() -> None:
    image, weight = np.ones((1, 3, 6, 9, 9), np.float32), np.ones((4, 3, 3, 3, 3), np.float32)
    im2win.conv3d(image, weight)
    im2win.conv1d(image[0, :, :, 0, 0], weight[..., 0, 0])
    im2win.Conv2dPlan((1, 3, 9, 9), (4, 3, 3, 3)).pack(weight[:, :, 0])
    packed = [entry["key"]["options"]["packed_filter"] for entry in _tuning.entries()]
    assert sorted(packed) == [0, 0, 1, 1]  # conv3d packs by itself


@pytest.mark.usefixtures("recording")
def test_a_folder_that_cannot_be_written_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("IM2WIN_CACHE_DIR", str(file / "cache"))
    with pytest.warns(RuntimeWarning, match="cannot record"):
        assert plan().algorithm == "im2win"


@pytest.mark.usefixtures("recording")
def test_tune_measures_what_was_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    problems = plan(activation="relu", bias=True, residual=True), plan(dtype="bfloat16")
    assert "2x16x20x20" in tune()
    entries = list(_tuning.entries())
    assert len(entries) == 3  # a plan with a residual is made after one without
    for entry in entries:
        times = entry["milliseconds"]
        assert {"im2win", "direct"} <= set(times)
        assert min(times.values()) > 0
        assert entry["algorithm"] in times
        fastest = min(times, key=lambda name: times[name])
        assert times[fastest] >= 0.97 * times["im2win"] or entry["algorithm"] == fastest
    assert problems[0].algorithm == "im2win"  # plans that are there stay as they are
    assert "nothing to measure" in tune()
    assert "2x16x20x20" in tune("--again")


def test_tune_adds_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As plans have them, in both orders of memory."""
    monkeypatch.setitem(NETWORKS, "twelve", LAYERS[-2:])
    monkeypatch.setattr(trial, "_SECONDS_PER_ALGORITHM", 0.0)
    tune("--layers", "twelve", "--layout", "NCHW,NHWC", "--dtype", "float16")
    entries = list(_tuning.entries())
    assert len(entries) == 4
    assert all("algorithm" in entry for entry in entries)
    monkeypatch.setenv("IM2WIN_LOG", "problems")
    im2win.Conv2dPlan((1, 7, 7, 512), (512, 3, 3, 512), layout="NHWC", dtype="float16")
    im2win.Conv2dPlan((1, 512, 7, 7), (512, 512, 3, 3), dtype="float16")
    assert len(list(_tuning.entries())) == 4


def test_another_version_measures_the_problem_again(monkeypatch: pytest.MonkeyPatch) -> None:
    key = key_of(monkeypatch)
    _tuning.store({**key, "library": "0.0.1"}, "direct", {})
    (_tuning.folder() / _tuning.file_name(key)).unlink()
    assert plan().algorithm == "im2win"
    tune()
    assert [e for e in _tuning.entries() if e["key"] == key and "algorithm" in e]


def test_a_wrong_algorithm_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """However fast it is."""
    right = TensorMemory.head
    heads = 0

    def head(memory: TensorMemory, elements: int) -> Any:
        nonlocal heads
        heads += 1
        return right(memory, elements) * (1 if heads == 1 else 1.001)

    monkeypatch.setattr(TensorMemory, "head", head)
    key_of(monkeypatch)
    tune()
    (entry,) = _tuning.entries()
    assert heads == len(taking())
    assert set(entry["milliseconds"]) == {"im2win"}


def test_the_default_is_kept_unless_another_is_clearly_faster() -> None:
    assert trial.choose("a", {"a": 1.0, "b": 0.98}) == "a"
    assert trial.choose("a", {"a": 1.0, "b": 0.5, "c": 0.6}) == "b"


@pytest.mark.gpu
def test_plans_are_tuned_during_capture(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    torch = pytest.importorskip("torch")
    image, weight = (torch.randn(shape, device="cuda") for shape in SHAPES)
    _tuning.store(key_of(monkeypatch, device="cuda"), "implicit_gemm", {})
    before = {path: path.stat().st_mtime_ns for path in cache.iterdir()}
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tuned = plan(device="cuda")
        output = tuned(image, weight)
    graph.replay()
    assert tuned.algorithm == "implicit_gemm"
    assert {path: path.stat().st_mtime_ns for path in cache.iterdir()} == before
    expected = torch.nn.functional.conv2d(image.double(), weight.double())
    torch.testing.assert_close(output.double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.gpu
def test_tune_measures_on_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    key = key_of(monkeypatch, device="cuda")
    assert key["driver"]
    result = CliRunner().invoke(app, ["tune", "--device", "cuda"])
    assert result.exit_code == 0, result.output
    (entry,) = _tuning.entries()
    assert {"im2win", "direct", "implicit_gemm"} <= set(entry["milliseconds"])
    assert plan(device="cuda").algorithm == entry["algorithm"]
