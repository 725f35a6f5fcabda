"""What benchmarks say follows from what they measured; the layers are those of the networks."""

from dataclasses import replace

import pytest

from im2win.layers import NETWORKS
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
    cudnn.library.cache_clear()
    assert peers.missing("cudnn_gemm") == "no libcudnn.so.9"
    assert peers.missing("im2col_cublas") is None
