"""The tensors of one call: how their axes and memory go together, and that they fit each other."""

from typing import Any, NamedTuple

from im2win._arguments import choice
from im2win._tensors.spec import Axes, Shape, TensorSpec, dense_strides, device_name, is_dense

# By the number of spatial axes: each layout, and the same axes in the other memory order.
LAYOUTS = {
    1: {"NCW": "NWC", "NWC": "NCW"},
    2: {"NCHW": "NHWC", "NHWC": "NCHW"},
    3: {"NCDHW": "NDHWC", "NDHWC": "NCDHW"},
}
_WEIGHT_AXES = {"N": "K", "C": "C / groups", "D": "T", "H": "R", "W": "S"}


class Tensors(NamedTuple):
    """The tensors of one call; None where there is none."""

    input: TensorSpec
    weight: TensorSpec
    bias: TensorSpec | None
    residual: TensorSpec | None
    out: TensorSpec | None


class Output(NamedTuple):
    """The output: what the caller sees, and how to get it from dense memory."""

    shape: Shape
    strides: Shape
    memory_shape: Shape
    axes: Axes


def by_axis(shape: Shape, strides: Shape, layout: str, axes: str) -> tuple[Shape, Shape]:
    """Sizes and strides of a shape of this layout, in the order of `axes`.

    Axes that the shape has not, such as N of an unbatched one, are of size 1.
    """
    if 0 in shape:
        strides = dense_strides(shape)  # NumPy's are all 0
    whole = max([size * abs(step) for size, step in zip(shape, strides, strict=True)])
    letters = layout[-len(shape) :]
    size_of, step_of = (dict(zip(letters, values, strict=True)) for values in (shape, strides))
    return tuple([size_of.get(a, 1) for a in axes]), tuple([step_of.get(a, whole) for a in axes])


def output_like(tensors: Tensors, sizes: dict[str, int], layout: str) -> Output:
    """The output as `out` is or, in memory order, as the input is; of these sizes by axis."""
    source, out = tensors.input, tensors.out
    letters = layout[-len(source.shape) :]
    shape = tuple([sizes[axis] for axis in letters])
    if tensors.residual is not None:
        check_shape("residual", tensors.residual.shape, shape)
    if out is not None:
        check_shape("out", out.shape, shape)
        if out.readonly:
            raise ValueError("out is read-only, expected a tensor that can be written to")
        return Output(shape, out.strides, shape, None)
    other = LAYOUTS[len(layout) - 2][layout]
    order = [letters.index(axis) for axis in other if axis in letters]
    reordered = [tuple([values[axis] for axis in order]) for values in source[:2]]
    if is_dense(source.shape, source.strides) or not is_dense(*reordered):
        return Output(shape, dense_strides(shape), shape, None)
    memory_shape = tuple([shape[axis] for axis in order])
    axes = tuple([order.index(axis) for axis in range(len(shape))])
    strides = dense_strides(memory_shape)
    return Output(shape, tuple([strides[axis] for axis in axes]), memory_shape, axes)


def check_tensors(tensors: Tensors) -> None:
    """Errors: ValueError and TypeError unless devices and dtypes go together."""
    _check_devices(tensors)
    _check_dtypes(tensors)


def check_dims(spec: TensorSpec, layout: Any, dims: int) -> None:
    """Errors: ValueError for another layout, or an input with too few or too many axes."""
    choice("layout", layout, LAYOUTS[dims])
    if len(layout) - len(spec.shape) not in (0, 1):
        batched, unbatched = ", ".join(layout), ", ".join(layout[1:])
        raise ValueError(
            f"input has shape {tuple(spec.shape)}, expected ({batched}) or ({unbatched})"
        )


def check_weight(spec: TensorSpec, layout: str, channels: int, groups: int) -> None:
    """Errors: ValueError for a weight that does not fit an input of so many channels."""
    shape = tuple(spec.shape)
    expected = f"({', '.join([_WEIGHT_AXES[axis] for axis in layout])})"
    if len(shape) != len(layout):
        raise ValueError(f"weight has shape {shape}, expected {expected}")
    if shape[layout.index("C")] * groups != channels:
        raise ValueError(
            f"weight has shape {shape}, expected {expected} with C / groups = "
            f"{channels} / {groups}, as the input has {channels} channels"
        )


def check_shape(name: str, shape: Shape, expected: Shape) -> None:
    if tuple(shape) != expected:
        raise ValueError(f"{name} has shape {tuple(shape)}, expected {expected}")


def _check_devices(tensors: Tensors) -> None:
    device = tensors.input.device
    for name, spec in tensors._asdict().items():
        if spec is not None and spec.device != device:
            raise ValueError(
                f"{name} is on {device_name(spec.device)}, expected {device_name(device)}, "
                "where the input is"
            )


def _check_dtypes(tensors: Tensors) -> None:
    dtype = tensors.input.dtype
    for name, spec in tensors._asdict().items():
        wide_bias = name == "bias" and dtype in ("float16", "bfloat16")
        allowed = (dtype, "float32") if wide_bias else (dtype,)
        if spec is not None and spec.dtype not in allowed:
            raise TypeError(
                f"{name} has dtype {spec.dtype}, expected {' or '.join(allowed)}, as the input "
                f"has {dtype}"
            )
