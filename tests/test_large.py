"""Sizes that 16, 31 and 32 bits do not hold, on a GPU, for every algorithm that takes them.

Integer data, so that a part of the output is exactly what `direct` makes of that part of the input.
"""

from typing import Any

import pytest

import im2win
from targets import NO_ALGORITHM

pytestmark = pytest.mark.gpu
ALGORITHMS = im2win.algorithms("cuda") or (NO_ALGORITHM,)
MANY = 65_535 + 2  # more than a grid has in y and z
WORKSPACE = 8 * 2**30  # beyond which batches are done in parts
IMAGE = (8, 64, 64)  # 2^15 elements, so that 2^16 images are 2^31


def integers(torch: Any, dtype: str, *shape: int) -> Any:
    values = torch.randint(-2, 3, shape, device="cuda", dtype=torch.int8)
    return values.to(getattr(torch, dtype))


def convolve(algorithm: str, x: Any, weight: Any, **options: Any) -> Any:
    try:
        return im2win.conv2d(x, weight, algorithm=algorithm, **options)
    except im2win.Im2winError as refusal:
        if refusal.status != "IM2WIN_UNSUPPORTED":
            raise
        pytest.skip(str(refusal))


def filters(torch: Any, algorithm: str, dtype: str, channels: int) -> tuple[Any, int]:
    """3x3, and the groups: all channels' own for `depthwise`."""
    groups = channels if algorithm == "depthwise" else 1
    return integers(torch, dtype, channels, channels // groups, 3, 3), groups


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_more_than_two_to_the_31_elements(
    torch: Any, algorithm: str, dtype: str, layout: str
) -> None:
    """In input and output; the images around the 2^31st element, the first and the last."""
    images = 2**31 // (IMAGE[0] * IMAGE[1] * IMAGE[2]) + 3
    weight, groups = filters(torch, algorithm, dtype, IMAGE[0])
    torch.cuda.empty_cache()
    needed = 7 * 2**30 * weight.element_size()  # two tensors at a time, three while one is copied
    if torch.cuda.mem_get_info()[0] < needed + WORKSPACE:
        pytest.skip(f"needs {(needed + WORKSPACE) >> 30} GiB")
    x = torch.empty(images, *IMAGE, device="cuda", dtype=weight.dtype)
    if layout == "NHWC":
        x = x.to(memory_format=torch.channels_last)
    for part in x.split(2**13):
        part.copy_(integers(torch, dtype, *part.shape))
    options: dict[str, Any] = {"padding": 1, "groups": groups}
    y = convolve(algorithm, x, weight, workspace_limit=WORKSPACE, **options)
    assert y.numel() > 2**31
    for first in (0, images - 6):
        part = slice(first, first + 6)
        assert torch.equal(y[part], im2win.conv2d(x[part], weight, algorithm="direct", **options))


@pytest.mark.parametrize("axis", range(5), ids=["n", "c", "k", "h", "w"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_any_size_may_pass_65535(torch: Any, algorithm: str, dtype: str, axis: int) -> None:
    sizes = [2, 3, 3, 5, 6]
    sizes[axis] = MANY
    n, c, k, h, w = sizes
    is_depthwise = algorithm == "depthwise"
    if is_depthwise:
        k = c = max(c, k)
    x = integers(torch, dtype, n, c, h, w)
    weight = integers(torch, dtype, k, 1 if is_depthwise else c, 3, 3)
    options: dict[str, Any] = {"padding": 1, "groups": c if is_depthwise else 1}
    y = convolve(algorithm, x, weight, **options)
    exact = im2win.conv2d(x.double(), weight.double(), algorithm="direct", **options)
    # Sums of so many integers are exact in float32; in float16 the results alone are rounded.
    assert torch.equal(y, exact.to(y.dtype))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_outputs_many_times_the_l2_cache(torch: Any, dtype: str) -> None:
    """Blocks of im2win_stem then take turns with the runs of an image."""
    x = integers(torch, dtype, 40, 3, 224, 224)
    weight = integers(torch, dtype, 72, 3, 3, 3)
    for padding in (0, 1):
        y = convolve("im2win_stem", x, weight, padding=padding)
        assert torch.equal(y, im2win.conv2d(x, weight, algorithm="direct", padding=padding))
