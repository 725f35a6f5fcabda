"""A three-dimensional convolution: every plane of its output is a two-dimensional one."""

from itertools import groupby
from typing import Any, NamedTuple

from im2win._arguments import Options, Window, byte_limit, integer, window
from im2win._call import Call
from im2win._depth import Depth, Taps
from im2win._execution import Execution, aligned_bytes
from im2win._library import Im2winError
from im2win._overlap import check_out
from im2win._planes import Planes
from im2win._problem import describe
from im2win._shapes import Tensors, by_axis, check_dims, check_tensors, check_weight, output_like
from im2win._tensors.spec import ITEMSIZES, TensorSpec, View

_ALIGNMENT = 256


class Plane(NamedTuple):
    """A plane of the output, and the convolution that makes it."""

    output: int
    taps: Taps
    execution: Execution


class VolumeExecution:
    """The convolutions of planes, of which each has a channel for every (channel, depth tap).

    So every output is rounded once: adding up a convolution for every tap would round a float16
    output at every tap. Taps outside the input are left out, as padding contributes nothing.

    Immutable, and safe to share between threads. Errors: those of Execution.
    """

    def __init__(self, tensors: Tensors, options: Options) -> None:
        check_tensors(tensors)
        check_dims(tensors.input, options.layout, 3)
        source, weight = (_volume(spec, options.layout) for spec in tensors[:2])
        check_weight(
            tensors.weight, options.layout, source.shape[1], integer("groups", options.groups)
        )
        geometry = window(weight.shape[2:], options.stride, options.padding, options.dilation)
        depth = Depth(source.shape[2], weight.shape[2], geometry)
        self._input = Planes(source, geometry.dilation[0])
        self._weight = Planes(weight, 1)
        taps = [depth.taps(index) for index in range(depth.outputs)]
        counts = {each.number for each in taps}
        input_bytes = max(self._input.copy_bytes(count) for count in counts)
        self._weight_begin = -(-input_bytes // _ALIGNMENT) * _ALIGNMENT
        weight_bytes = max(self._weight.copy_bytes(count) for count in counts)
        self._copy_bytes = self._weight_begin + weight_bytes
        self._options = _plane_options(options, geometry, self._copy_bytes)
        self._describe_output(tensors, depth.outputs, options.layout)
        executions = {count: self._execution(count, tensors) for count in counts}
        self._planes = [Plane(i, each, executions[each.number]) for i, each in enumerate(taps)]
        conv_bytes = max(execution.workspace_bytes for execution in executions.values())
        self.workspace_bytes = self._copy_bytes + conv_bytes

    def _describe_output(self, tensors: Tensors, depth: int, layout: str) -> None:
        one_tap = Tensors(self._input.image(1), self._weight.image(1), None, None, None)
        n, k, p, q = describe(one_tap, self._options)[1].shape
        output = output_like(tensors, {"N": n, "C": k, "D": depth, "H": p, "W": q}, layout)
        self.output_shape = output.shape
        self._memory_shape, self._axes = output.memory_shape, output.axes
        self._depth_axis = layout[-len(output.shape) :].index("D")
        like_output = TensorSpec(*output[:2], *tensors.input[2:4], readonly=False)
        self._out = _volume(like_output, layout)
        residual = tensors.residual
        self._residual = None if residual is None else _volume(residual, layout)

    def _execution(self, count: int, tensors: Tensors) -> Execution:
        """The convolution of planes that see so many taps."""
        source, weight = self._input.image(count or 1), self._weight.image(count or 1)
        options = self._options
        if count == 0:  # windows that step over the one pixel of an image: they see -1, 1, 3...
            source, weight = (s._replace(shape=(*s.shape[:2], 1, 1)) for s in (source, weight))
            padding = [(1, 2 * (size - 1)) for size in self._out.shape[3:]]
            options = options._replace(stride=2, padding=padding, dilation=1)
        residual = None if self._residual is None else _plane(self._residual)
        return Execution(
            Tensors(source, weight, tensors.bias, residual, _plane(self._out)), options
        )

    def run(self, call: Call) -> Any:
        """Convolves tensors of the specs; returns the output."""
        check_out(call, self._depth_axis)
        if call.stream_is_current:
            return self._run(call)
        device = call.input.spec.device
        with call.input.framework.using_stream(call.stream, device):
            return self._run(call._replace(stream_is_current=True))

    def _run(self, call: Call) -> Any:
        source, stream, out = call.input, call.stream, call.out
        if out is None:
            tensor = source.framework.empty(source, self._memory_shape, stream, self._axes)
            out = source._replace(address=source.framework.address(tensor), tensor=tensor)
        if 0 in self.output_shape:
            return out.tensor
        memory = 0
        if self._copy_bytes:
            _buffer, memory = aligned_bytes(source, self._copy_bytes, stream)
        weight_memory = memory + self._weight_begin
        for (first, count), planes in groupby(self._planes, lambda each: each.taps[:2]):
            weight = self._weight.see(call.weight.address, first, count, weight_memory, stream)
            for plane in planes:
                image = self._input.see(source.address, plane.taps.plane, count, memory, stream)
                self._run_plane(call, plane, image, weight, out)
        return out.tensor

    def _run_plane(self, call: Call, plane: Plane, image: int, weight: int, out: View) -> None:
        residual = call.residual
        if residual is not None and self._residual is not None:
            residual = _at(residual, self._residual, plane.output)
        plane.execution.run(
            Call(
                call.input._replace(address=image),
                call.weight._replace(address=weight),
                call.bias,
                residual,
                _at(out, self._out, plane.output),
                call.stream,
                True,
            )
        )


def _at(view: View, spec: TensorSpec, plane: int) -> View:
    """A plane of a tensor whose spec is in the order N C D H W."""
    begin = plane * spec.strides[2] * ITEMSIZES[spec.dtype]
    return view._replace(address=view.address + begin)


def _volume(spec: TensorSpec, layout: str) -> TensorSpec:
    """The same, in the order N C D H W."""
    shape, strides = by_axis(spec.shape, spec.strides, layout, "NCDHW")
    return spec._replace(shape=shape, strides=strides)


def _plane(spec: TensorSpec) -> TensorSpec:
    """Any plane of a tensor in the order N C D H W, in the order N C H W."""
    (n, c, _, h, w), (step_n, step_c, _, step_h, step_w) = spec.shape, spec.strides
    return spec._replace(shape=(n, c, h, w), strides=(step_n, step_c, step_h, step_w))


def _plane_options(options: Options, geometry: Window, copy_bytes: int) -> Options:
    """The options of the planes' convolutions, which get what copies leave of the workspace."""
    limit = byte_limit(options.workspace_limit)
    if limit is not None:
        if limit < copy_bytes:
            raise Im2winError(
                f"workspace_limit is {limit}: copies of planes need {copy_bytes} bytes",
                "IM2WIN_WORKSPACE_TOO_SMALL",
            )
        limit -= copy_bytes
    return options._replace(
        dims=2,
        stride=geometry.stride[1:],
        padding=geometry.padding[1:],
        dilation=geometry.dilation[1:],
        layout="NCHW",
        workspace_limit=limit,
    )
