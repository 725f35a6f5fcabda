"""ONNX's own tests of its operator Conv: each by its data, and against its reference in float64."""

import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import im2win
from numerics import DTYPES, Array, assert_close, tolerance
from targets import DEVICES

onnx = pytest.importorskip("onnx")
numpy_helper = import_module("onnx.numpy_helper")
CONVOLUTIONS: dict[int, Any] = {1: im2win.conv1d, 2: im2win.conv2d, 3: im2win.conv3d}


class Case(NamedTuple):
    """A model of one Conv."""

    name: str
    node: Any
    tensors: tuple[Array, ...]  # input, weight and, if there is one, bias
    output: Array

    def __str__(self) -> str:
        return self.name

    def attributes(self) -> dict[str, Any]:
        return {each.name: onnx.helper.get_attribute_value(each) for each in self.node.attribute}


def case(name: str, model: Any, inputs: list[Array], output: Array) -> Case | None:
    """None where the model is not a single Conv."""
    (*nodes,) = model.graph.node
    if [node.op_type for node in nodes] != ["Conv"]:
        return None
    arrays = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    names = [each.name for each in model.graph.input if each.name not in arrays]
    arrays.update(zip(names, inputs, strict=True))
    return Case(name, nodes[0], tuple(arrays[each] for each in nodes[0].input), output)


def node_cases() -> Iterator[Case | None]:
    """The operator's examples, which ONNX makes as it imports them."""
    import_module("onnx.backend.test.case.node.conv")
    for each in import_module("onnx.backend.test.case.node")._NodeTestCases:
        if any(node.op_type == "Conv" for node in each.model.graph.node):
            for inputs, outputs in each.data_sets:
                yield case(each.name, each.model, list(inputs), outputs[0])


def stored_cases() -> Iterator[Case | None]:
    """Models that PyTorch exported, stored with their data."""
    for path in sorted((Path(onnx.__file__).parent / "backend/test/data").glob("*/*/model.onnx")):
        model = onnx.load(path)
        if any(node.op_type == "Conv" for node in model.graph.node):
            for data in path.parent.glob("test_data_set_*"):
                inputs = [tensor(file) for file in sorted(data.glob("input_*.pb"))]
                yield case(path.parent.name, model, inputs, tensor(data / "output_0.pb"))


def tensor(path: Path) -> Array:
    array: Array = numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))
    return array


CASES = [each for each in (*node_cases(), *stored_cases()) if each is not None]


def sides(attributes: dict[str, Any], x: Array, weight: Array) -> tuple[tuple[int, int], ...]:
    """`pads` and `auto_pad` as ONNX defines them, as (before, after) for each axis."""
    dims = x.ndim - 2
    automatic = attributes.get("auto_pad", b"NOTSET")
    if automatic == b"VALID":
        return ((0, 0),) * dims
    if automatic == b"NOTSET":
        pads = attributes.get("pads", [0] * 2 * dims)
        return tuple(zip(pads[:dims], pads[dims:], strict=True))
    strides = attributes.get("strides", [1] * dims)
    dilations = attributes.get("dilations", [1] * dims)
    padding = []
    for size, kernel, stride, dilation in zip(
        x.shape[2:], weight.shape[2:], strides, dilations, strict=True
    ):
        reach = dilation * (kernel - 1) + 1
        total = max(-(-size // stride) * stride - stride + reach - size, 0)
        fewer, more = total // 2, total - total // 2
        padding.append((fewer, more) if automatic == b"SAME_UPPER" else (more, fewer))
    return tuple(padding)


def convolve(case: Case, tensors: tuple[Array, ...], device: str) -> Array:
    attributes, dims = case.attributes(), tensors[0].ndim - 2
    assert attributes["kernel_shape"] == list(tensors[1].shape[2:])
    y: Array = CONVOLUTIONS[dims](
        *tensors,
        stride=attributes.get("strides", 1),
        padding=sides(attributes, *tensors[:2]),
        dilation=attributes.get("dilations", 1),
        groups=attributes.get("group", 1),
        device=device,
    )
    return y


def reference(case: Case, tensors: tuple[Array, ...]) -> Array:
    """By ONNX's reference evaluator, in float64."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluator = import_module("onnx.reference").ReferenceEvaluator(case.node)
    wide = (array.astype(np.float64) for array in tensors)
    (y,) = evaluator.run(None, dict(zip(case.node.input, wide, strict=True)))
    assert y.dtype == np.float64
    exact: Array = y
    return exact


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("device", DEVICES)
def test_reference_evaluator(device: str, case: Case, dtype: str) -> None:
    tensors = tuple(array.astype(DTYPES[dtype]) for array in case.tensors)
    y = convolve(case, tensors, device)
    exact = reference(case, tensors)
    magnitude = reference(case, tuple(np.abs(array) for array in tensors))
    taps = int(np.prod(tensors[1].shape[1:]))
    sums = "float64" if dtype == "float64" else "float32"
    assert y.dtype == DTYPES[dtype]
    assert_close(y, exact, tolerance(exact, magnitude, dtype, sums, taps))


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("device", DEVICES)
def test_stored_output(device: str, case: Case) -> None:
    """Within the tolerance that ONNX's own runner allows to a backend."""
    y = convolve(case, case.tensors, device)
    np.testing.assert_allclose(y, case.output, rtol=1e-3, atol=1e-7)


def test_all_of_them_are_here() -> None:
    assert len(CASES) >= 33
