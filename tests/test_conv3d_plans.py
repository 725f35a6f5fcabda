"""Conv3dPlan and conv3d under a workspace limit, and with a weight that was packed."""

import gc
from typing import Any

import numpy as np
import pytest

import im2win
from numerics import Array, integers, normal
from volumes import VOLUMES, Volume, assert_convolved, convolution

# Channels and depth have no common stride, so that planes of input and weight are copied.
VOLUME = Volume(n=7, c=4, padding=((1, 1), (1, 1), (0, 2)), k=5)


def new_plan(volume: Volume = VOLUME, **options: Any) -> im2win.Conv3dPlan:
    """On one thread, so that the workspace does not depend on the machine."""
    options |= {**volume.geometry, "threads": 1}
    return im2win.Conv3dPlan(volume.input_shape, volume.weight_shape, **options)


def arrays(volume: Volume = VOLUME) -> tuple[Array, Array]:
    return normal(volume.input_shape, "float32"), normal(volume.weight_shape, "float32")


def of_one_image(algorithm: str | None = None) -> int:
    volume = Volume(n=1, c=4, padding=VOLUME.padding, k=5)
    return new_plan(volume, algorithm=algorithm).workspace_bytes


@pytest.mark.parametrize("algorithm", ["im2win", "direct"])
@pytest.mark.parametrize("share", [1, 0.9, 0.7, 0.5, 0.3, 0])
def test_a_limit_splits_the_batch(share: float, algorithm: str) -> None:
    """In place, as each part must find the residual of its own images."""
    x, weight = integers(VOLUME.input_shape, "float32"), integers(VOLUME.weight_shape, "float32")
    residual = integers(VOLUME.output_shape, "float32", "residual")
    bias = integers((VOLUME.k,), "float32", "bias")
    exact = convolution(x, weight, VOLUME) + residual + bias[:, None, None, None]
    single = of_one_image(algorithm)
    whole = new_plan(algorithm=algorithm).workspace_bytes
    limit = max(single, int(share * whole))
    options: dict[str, Any] = {"algorithm": algorithm, "workspace_limit": limit}
    plan = new_plan(bias=True, residual=True, **options)
    assert plan.workspace_bytes <= limit
    assert plan.algorithm == algorithm
    out = residual.copy()
    assert plan(x, weight, bias, out, out=out) is out
    np.testing.assert_array_equal(out, exact.astype(np.float32))
    packed = plan.pack(weight)
    assert packed.workspace_bytes <= plan.workspace_bytes
    np.testing.assert_array_equal(packed(x, bias, residual), out)


def test_a_limit_splits_before_another_algorithm_is_chosen() -> None:
    unlimited, single = new_plan(), of_one_image()
    assert 2 * single < unlimited.workspace_bytes
    for limit in (single, 2 * single, unlimited.workspace_bytes - 1):
        plan = new_plan(workspace_limit=limit)
        assert plan.algorithm == unlimited.algorithm
        assert plan.workspace_bytes <= limit


def test_a_limit_with_room_for_nothing_but_copies() -> None:
    """Another algorithm, of more images at a time, is better than none."""
    limit = of_one_image("direct")
    plan = new_plan(workspace_limit=limit)
    assert (plan.algorithm, plan.workspace_bytes) == ("direct", limit)
    x, weight = arrays()
    assert_convolved(plan(x, weight), x, weight, VOLUME, "direct")


def test_a_limit_below_one_image() -> None:
    for algorithm in ("im2win", "direct"):
        limit = of_one_image(algorithm) - 1
        message = f"workspace_limit is {limit}, .*one image.* need"
        with pytest.raises(im2win.Im2winError, match=message) as refusal:
            new_plan(workspace_limit=limit, algorithm=algorithm)
        assert refusal.value.status == "IM2WIN_WORKSPACE_TOO_SMALL"
    x, weight = arrays()
    with pytest.raises(im2win.Im2winError, match=r"workspace_limit is 64, .* copies of planes"):
        im2win.conv3d(x, weight, **VOLUME.geometry, workspace_limit=64)


def test_what_the_strides_do_without_copies_needs_none() -> None:
    for volume in (Volume(window=(1, 3, 3)), Volume(window=(5, 2, 2)), Volume(c=1), Volume(n=0)):
        x, weight = arrays(volume)
        y = im2win.conv3d(x, weight, workspace_limit=0)
        assert_convolved(y, x, weight, volume, "")


@pytest.mark.parametrize("algorithm", ["im2win", "direct"])
@pytest.mark.parametrize("volume", VOLUMES, ids=range(len(VOLUMES)))
def test_packed_weights(volume: Volume, algorithm: str) -> None:
    """Whatever becomes of the weight where it is rearranged; kept where it is taken as it is."""
    x, weight = arrays(volume)
    plan = new_plan(volume, algorithm=algorithm)
    y = plan(x, weight)
    assert_convolved(y, x, weight, volume, algorithm)
    packed = plan.pack(weight)
    if packed._weight.address == 0:
        weight.fill(np.nan)
    else:
        assert algorithm == "direct"
    del weight
    gc.collect()
    assert packed(x).tobytes() == y.tobytes()


def test_an_output_in_the_place_of_the_weight() -> None:
    """That is an error where the weight itself is read, and fine where it is not."""
    volume = Volume(
        n=1, c=2, k=2, size=(3, 3, 3), window=(1, 3, 3), padding=((0, 0), (1, 1), (1, 1))
    )
    x, weight = arrays(volume)
    memory = np.zeros(volume.output_shape, np.float32)
    place = memory.reshape(-1)[: weight.size].reshape(weight.shape)
    place[:] = weight
    with pytest.raises(ValueError, match="overlaps weight"):
        new_plan(volume, algorithm="direct").pack(place)(x, out=memory)
    packed = new_plan(volume, algorithm="im2win").pack(place)
    assert_convolved(packed(x, out=memory), x, weight, volume, "im2win")


@pytest.mark.gpu
def test_on_the_gpu() -> None:
    x, weight = arrays()
    on_gpu = [im2win.DeviceArray.from_numpy(each) for each in (x, weight)]
    unlimited = new_plan(device="cuda")
    for limit in (None, unlimited.workspace_bytes // 2):
        plan = new_plan(device="cuda", workspace_limit=limit)
        results = [plan(*on_gpu), plan.pack(on_gpu[1])(on_gpu[0])]
        for y in results:
            assert_convolved(y.numpy(), x, weight, VOLUME, plan.algorithm)
