"""MEC, beside what every algorithm is tested for: what it refuses, and the memory it is about."""

from typing import Any

import pytest

import im2win
from im2win.layers import LAYERS, Layer
from targets import DEVICES

INPUT, WEIGHT = (3, 5, 11, 17), (7, 5, 3, 4)


def refusal(device: str, **options: Any) -> str | None:
    plan = im2win.Conv2dPlan(INPUT, WEIGHT, device=device, **options)
    assert plan.algorithm != "mec"  # it is there to be compared with
    return plan.algorithms()["mec"]


@pytest.mark.parametrize("device", DEVICES)
def test_takes_what_its_paper_has(device: str) -> None:
    assert refusal(device) is None
    assert refusal(device, stride=(2, 3)) is None
    assert "without padding" in str(refusal(device, padding=(0, 1)))
    assert "without dilation" in str(refusal(device, dilation=(2, 1)))
    assert "float32, not float16" in str(refusal(device, dtype="float16"))
    grouped = im2win.Conv2dPlan((1, 4, 5, 5), (4, 2, 3, 3), groups=2, device=device)
    assert "without groups" in str(grouped.algorithms()["mec"])


def test_its_workspace_grows_by_the_lowered_matrix() -> None:
    """N x Q x H x S x C elements; what else there is does not grow."""
    _, c, h, w = INPUT
    lowered = 4 * ((w - 4) // 2 + 1) * h * 4 * c

    def needs(n: int) -> int:
        plan = im2win.Conv2dPlan((n, c, h, w), WEIGHT, stride=(1, 2), algorithm="mec")
        return plan.workspace_bytes

    assert needs(256) - needs(128) == 128 * lowered
    assert needs(128) - 128 * lowered < 2**20


@pytest.mark.gpu
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_it_needs_what_im2win_needs_on_squares(layer: Layer) -> None:
    """Lowered along the width or along the height, and multiplied alike."""
    shapes = (layer.input_shape(128), layer.weight_shape)
    mec, explicit = (
        im2win.Conv2dPlan(*shapes, stride=layer.stride, algorithm=name, device="cuda")
        for name in ("mec", "im2win")
    )
    assert mec.workspace_bytes == explicit.workspace_bytes
