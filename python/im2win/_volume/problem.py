"""A three-dimensional problem, checked, with its axes in one order."""

from typing import NamedTuple

from im2win._arguments import Options, integer, window
from im2win._problem import describe
from im2win._shapes import (
    Output,
    Tensors,
    by_axis,
    check_dims,
    check_tensors,
    check_weight,
    output_like,
)
from im2win._tensors.spec import ITEMSIZES, TensorSpec
from im2win._volume.depth import Depth, Taps


class Addresses(NamedTuple):
    """Of the tensors of a call; 0 where there is none."""

    input: int
    weight: int
    bias: int
    residual: int
    out: int


class Volume(NamedTuple):
    """The tensors' axes are N C D H W, whatever the layout."""

    input: TensorSpec
    weight: TensorSpec
    bias: TensorSpec | None
    residual: TensorSpec | None
    out: TensorSpec
    taps: tuple[Taps, ...]  # of each plane of the output
    tap_step: int  # planes of the input from one tap to the next
    plane_options: Options  # of the convolutions that make planes

    @property
    def images(self) -> int:
        return self.input.shape[0]

    def with_images(self, images: int) -> "Volume":
        """The same problem with another number of images."""

        def part(spec: TensorSpec) -> TensorSpec:
            return spec._replace(shape=(images, *spec.shape[1:]))

        residual = None if self.residual is None else part(self.residual)
        return self._replace(input=part(self.input), residual=residual, out=part(self.out))

    def at_image(self, whole: Addresses, image: int) -> Addresses:
        return whole._replace(
            input=whole.input + _bytes(self.input, 0, image),
            residual=whole.residual + _bytes(self.residual, 0, image),
            out=whole.out + _bytes(self.out, 0, image),
        )

    def at_output_plane(self, whole: Addresses, plane: int) -> Addresses:
        return whole._replace(
            residual=whole.residual + _bytes(self.residual, 2, plane),
            out=whole.out + _bytes(self.out, 2, plane),
        )


def describe_volume(tensors: Tensors, options: Options) -> tuple[Volume, Output]:
    """The problem, and its output as the caller sees it.

    Errors: TypeError and ValueError that name the argument, its value and what was expected.
    """
    check_tensors(tensors)
    layout = options.layout
    check_dims(tensors.input, layout, 3)
    source, weight = (_in_order(spec, layout) for spec in tensors[:2])
    check_weight(tensors.weight, layout, source.shape[1], integer("groups", options.groups))
    geometry = window(weight.shape[2:], options.stride, options.padding, options.dilation)
    depth = Depth(source.shape[2], weight.shape[2], geometry)
    stride, padding, dilation = (each[1:] for each in geometry)
    plane_options = options._replace(
        dims=2, layout="NCHW", stride=stride, padding=padding, dilation=dilation
    )
    one_tap = Tensors(plane(source), plane(weight), None, None, None)
    n, k, p, q = describe(one_tap, plane_options)[1].shape
    sizes = {"N": n, "C": k, "D": depth.outputs, "H": p, "W": q}
    output = output_like(tensors, sizes, layout)
    out = TensorSpec(output.shape, output.strides, *tensors.input[2:4], readonly=False)
    volume = Volume(
        source,
        weight,
        tensors.bias,
        None if tensors.residual is None else _in_order(tensors.residual, layout),
        _in_order(out, layout),
        tuple([depth.taps(index) for index in range(depth.outputs)]),
        geometry.dilation[0],
        plane_options,
    )
    return volume, output


def plane(spec: TensorSpec) -> TensorSpec:
    """Any plane of a tensor, in the order N C H W."""
    (n, c, _, h, w), (step_n, step_c, _, step_h, step_w) = spec.shape, spec.strides
    return spec._replace(shape=(n, c, h, w), strides=(step_n, step_c, step_h, step_w))


def _in_order(spec: TensorSpec, layout: str) -> TensorSpec:
    """The same, in the order N C D H W."""
    shape, strides = by_axis(spec.shape, spec.strides, layout, "NCDHW")
    return spec._replace(shape=shape, strides=strides)


def _bytes(spec: TensorSpec | None, axis: int, index: int) -> int:
    """From the first element of a tensor to another; 0 without a tensor."""
    return 0 if spec is None else index * spec.strides[axis] * ITEMSIZES[spec.dtype]
