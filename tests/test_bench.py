"""What benchmarks say follows from what they measured; the layers are those of the networks."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import paper
import paper_report
from im2win.layers import LAYERS, NETWORKS
from paper_rows import Row as PaperRow
from paper_rows import Study
from summary import Row, mean_speedup, network_speedup, pairs

ROW = Row("conv1", 1, "im2win", False, True, 2.0, 1.0, 0, 0.0, 0.0)
PEER = replace(ROW, algorithm="fast", is_peer=True, is_automatic=False)


def test_the_automatic_choice_beside_the_fastest_peer() -> None:
    rows = [
        ROW,
        replace(ROW, algorithm="faster", is_automatic=False, milliseconds=1.0),
        replace(PEER, milliseconds=3.0),
        replace(PEER, algorithm="slow", milliseconds=9.0),
        replace(ROW, layer="conv2", count=3, is_automatic=False, milliseconds=4.0),
        replace(ROW, layer="conv2", count=3, is_automatic=False, milliseconds=5.0),
        replace(PEER, layer="conv2", count=3, milliseconds=1.5),
    ]
    found = pairs(rows)
    assert [(pair.ours, pair.peer) for pair in found] == [(rows[0], rows[2]), (rows[4], rows[6])]
    assert [pair.speedup for pair in found] == [1.5, 0.375]
    assert mean_speedup(found) == pytest.approx((1.5 * 0.375) ** 0.5)
    assert network_speedup(found) == pytest.approx((3 + 3 * 1.5) / (2 + 3 * 4))


def test_layers_that_only_one_side_takes() -> None:
    found = pairs([ROW, replace(PEER, layer="conv2")])
    assert [pair.speedup for pair in found] == [None, None]
    assert mean_speedup(found) is None
    assert network_speedup(found) is None
    found = pairs([ROW, replace(PEER, milliseconds=1.0), replace(PEER, layer="conv2")])
    assert mean_speedup(found) == 0.5
    assert network_speedup(found) is None


# Multiplications for one image in all convolutions, as torchvision has these networks.
@pytest.mark.parametrize(
    ("network", "convolutions", "multiplications"),
    [("twelve", 12, None), ("resnet50", 53, 4_087_136_256), ("vgg16", 13, 15_346_630_656)],
)
def test_networks(network: str, convolutions: int, multiplications: int | None) -> None:
    layers = NETWORKS[network]
    assert sum(layer.count for layer in layers) == convolutions
    assert len({layer.name for layer in layers}) == len(layers)
    if multiplications is not None:
        assert sum(layer.count * layer.flops(1) for layer in layers) == 2 * multiplications


def test_errors_against_float64() -> None:
    torch = pytest.importorskip("torch")
    from case import Expected

    layer = next(each for each in NETWORKS["resnet50"] if each.name == "128x56-128k3s2")
    x, weight = torch.rand(1, 128, 56, 56), torch.rand(128, 128, 3, 3)
    expected = Expected(layer, x, weight)
    exact = torch.nn.functional.conv2d(x.double(), weight.double(), stride=2, padding=1)
    assert max(expected.errors(exact)) < 1e-14
    wrong = exact.clone()
    wrong[0, 5, 7, 9] *= 1.5
    frobenius, largest = expected.errors(wrong.to(memory_format=torch.channels_last))
    assert largest == pytest.approx(0.25)
    assert frobenius == pytest.approx(0.5 * float(exact[0, 5, 7, 9] / exact.norm()))
    wrong[0, 0, 0, 0] = torch.nan
    assert not expected.errors(wrong).largest <= 1


def test_a_peer_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    import cudnn
    import peers

    monkeypatch.setattr(cudnn, "_candidates", lambda: iter(["libcudnn_of_nobody.so"]))
    cudnn.load.cache_clear()
    assert peers.missing("cudnn_gemm") == "no libcudnn.so.9"
    assert peers.missing("im2col_cublas") is None


PAPER_ROW = PaperRow("conv1", "im2win", 100, 2.0, 4.0, 0.5, 1.0, 2**20, 0.0)


def study(device: str = "cuda") -> Study:
    rows = [
        PAPER_ROW,
        replace(PAPER_ROW, algorithm="cudnn_pick", device_median_ms=1.5, extra_bytes=3 * 2**30),
        replace(PAPER_ROW, algorithm="cudnn_gemm", device_median_ms=1.5),
        replace(PAPER_ROW, algorithm="cudnn_fft", device_median_ms=1.25, extra_bytes=None),
        replace(PAPER_ROW, layer="conv12", algorithm="direct"),
    ]
    if device == "cpu":
        rows = [replace(row, device_median_ms=None) for row in rows]
    picks = {"conv1": "GEMM"}
    missing = {"unfold_cupy": "no CuPy"}
    refusals = [{"layer": "conv12", "algorithm": "mec", "reason": "why"}]
    return Study(device, "fp32", 2, rows, picks, missing, refusals, machine={"commit": "c"})


def cells(markdown: str, label: str) -> list[str]:
    line = next(line for line in markdown.splitlines() if line.startswith(f"| {label} |"))
    return [cell.strip() for cell in line.split("|")[2:-1]]


def test_rates_of_the_paper_count_two_operations_a_product() -> None:
    flops = 2 * 2 * 96 * 55 * 55 * 3 * 11 * 11
    gpu, cpu = study(), study("cpu")
    assert float(cells(paper_report.rates(gpu), "im2win (Algorithm 3)")[0]) == pytest.approx(
        flops / 1e-3 / 1e12, rel=1e-2
    )
    assert float(cells(paper_report.other_rates(gpu), "im2win (Algorithm 3)")[0]) == pytest.approx(
        flops / 2e-3 / 1e12, rel=1e-2
    )
    assert float(cells(paper_report.rates(cpu), "im2win (Algorithm 3)")[0]) == pytest.approx(
        flops / 2e-3 / 1e9, rel=1e-2
    )


def test_memory_of_the_paper_is_that_of_tensors_and_calls() -> None:
    tensors = 4 * (2 * 3 * 227**2 + 96 * 3 * 121 + 2 * 96 * 55**2)
    formula = tensors + 4 * 2 * 3 * 55 * 227 * 11
    text = paper_report.memory(study())
    for label, expected in (
        ("the tensors alone", tensors),
        ("tensors and im2win tensor, by the paper's formula", formula),
        ("im2win (Algorithm 3)", tensors + 2**20),
    ):
        assert float(cells(text, label)[0]) == pytest.approx(expected / 2**20, rel=1e-2)
    assert cells(text, "cuDNN FFT") == ["", ""]
    assert cells(text, "direct")[0] == ""


def test_claims_of_the_paper_stand_beside_what_was_measured() -> None:
    found = study()
    assert cells(paper_report.picks(found), "conv1") == ["IMPLICIT_GEMM", "GEMM", "FFT"]
    text = paper_report.claims(found)
    assert cells(text, "speed over cuDNN's pick")[:2] == ["1.1", "1.50"]
    ours, theirs = (found.memory_bytes(LAYERS[0], name) for name in ("im2win", "cudnn_pick"))
    assert ours is not None
    assert theirs is not None
    saved = float(cells(text, "% memory below cuDNN's pick")[1])
    assert saved == pytest.approx(100 * (1 - ours / theirs), abs=0.01)
    assert cells(text, "speed over im2col + cuBLAS (PyTorch)") == ["3.5", "", "", "", ""]


def test_the_report_is_what_the_results_file_says() -> None:
    found = study()
    again = Study.from_json(json.loads(json.dumps(found.json())))
    assert again == found
    text = paper_report.report(again)
    assert text.index("Table 3") < text.index("Figure 2") < text.index("Figure 3")
    assert text.index("Figure 3") < text.index("Figure 4") < text.index("- MEC on conv12: why")
    assert "- unfold + cuBLAS (CuPy): not installed: no CuPy" in text
    assert "Figure 4" not in paper_report.report(study("cpu"))


def test_figures_are_the_same_for_the_same_results(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    import paper_figures

    paths = paper_figures.save(study(), tmp_path)
    assert {path.name for path in paths} == {
        f"figure{number}.{ending}" for number in (2, 3) for ending in ("png", "svg")
    }
    before = [path.read_bytes() for path in paths]
    assert [path.read_bytes() for path in paper_figures.save(study(), tmp_path)] == before


def test_the_evaluation_on_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One layer, as the command does it; what is not installed is a line."""
    import cpu_peers
    import paper_cpu

    monkeypatch.setattr(paper_cpu, "_BUDGET_SECONDS", 0.0)
    monkeypatch.setattr(cpu_peers, "_MODULES", {"ONNX Runtime": ("nobodys_module",)})
    monkeypatch.setattr(paper, "_backend", lambda: ("cpu", paper_cpu))
    peers = "im2col_numpy,onnxruntime"
    paper.main(tmp_path, layers="conv12", batch=1, peers=peers)
    found = Study.from_json(json.loads((tmp_path / "results.json").read_text()))
    assert found.algorithms == ["direct", "im2col_numpy", "im2win", "im2win_packed", "mec"]
    assert found.missing == {"onnxruntime": "no module nobodys_module"}
    assert all(row.largest_error < 1e-6 and row.runs == 5 for row in found.rows)
    assert "ONNX Runtime: not installed" in (tmp_path / "report.md").read_text()


def test_a_wrong_result_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    import paper_cpu
    import unfold

    monkeypatch.setattr(paper_cpu, "_BUDGET_SECONDS", 0.0)
    right = unfold.convolve
    monkeypatch.setattr(unfold, "convolve", lambda *arguments: right(*arguments) * 1.001)
    found = Study("cpu", "fp32", 1)
    paper_cpu.measure_layer(found, LAYERS[11], ["im2col_numpy"])
    assert "im2col_numpy" not in found.algorithms
    assert found.refusals[0]["reason"].startswith("wrong: ")
    assert not found.is_wrong  # of ours


def test_memory_of_a_call_is_measured() -> None:
    import cpu_memory

    def call() -> None:
        np.ones(2**22).sum()  # 32 MiB

    peak = cpu_memory.peak_bytes(call)
    if peak is None:
        pytest.skip("this system does not tell")
    assert 0.9 * 2**25 < peak < 2**26  # the system counts pages in batches


def test_micro_batches_are_the_largest_that_keep_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    import case
    import cudnn
    import micro_batches

    limit = micro_batches.WORKSPACE_LIMIT

    class Convolution:
        """A fifth of the cap for each image by FFT, nothing by GEMM, and no other algorithm."""

        def __init__(self, part: case.Case, weight: Any, algorithm: str) -> None:
            if algorithm not in ("FFT", "GEMM"):
                raise cudnn.CuDNNError(algorithm)
            self.workspace_bytes = part.batch * limit // 5 if algorithm == "FFT" else 0
            self.images, self.weight = part.batch, weight

        def __call__(self, input: Any, output: Any) -> None:
            assert len(input) == self.images
            output.copy_(torch.nn.functional.conv2d(input, self.weight))

    monkeypatch.setattr(case, "DEVICE", "cpu")
    monkeypatch.setattr(cudnn, "Convolution", Convolution)
    whole = case.Case(LAYERS[11], 12, "fp32", "NCHW")
    weight = whole.weight()
    assert micro_batches._largest(whole, weight, "WINOGRAD") is None
    assert micro_batches._largest(whole, weight, "GEMM")._images == 12  # type: ignore[union-attr]
    parts = micro_batches._largest(whole, weight, "FFT")
    assert parts is not None
    assert parts._images == 4
    input = whole.input()
    torch.testing.assert_close(parts(input), torch.nn.functional.conv2d(input, weight))
