"""The tensors of one call, as views of their memory."""

from collections.abc import Callable
from typing import Any, NamedTuple

from im2win._shapes import Output, Tensors
from im2win._tensors import view
from im2win._tensors.spec import View, new
from im2win._tensors.stream import stream_handle


class Call(NamedTuple):
    """The tensors of one call, None where there is none, and where it runs."""

    input: View
    weight: View
    bias: View | None
    residual: View | None
    out: View | None
    stream: int
    stream_is_current: bool  # of the input's framework, whose allocator goes by it

    def specs(self) -> Tensors:
        source, weight, bias, residual, out, _, _ = self
        specs = (
            source.spec,
            weight.spec,
            None if bias is None else bias.spec,
            None if residual is None else residual.spec,
            None if out is None else out.spec,
        )
        return new(Tensors, specs)

    def on_stream(self, run: Callable[["Call"], Any]) -> Any:
        """What `run` returns for this call, made while its stream is current."""
        if self.stream_is_current:
            return run(self)
        with self.input.framework.using_stream(self.stream, self.input.spec.device):
            return run(self)

    def output(self, planned: Output) -> tuple[Any, int]:
        """The tensor to write, `out` or a new one, and its address."""
        if self.out is not None:
            return self.out.tensor, self.out.address
        framework = self.input.framework
        tensor = framework.empty(self.input, planned.memory_shape, self.stream, planned.axes)
        return tensor, framework.address(tensor)


def view_on_stream(tensor: Any, name: str, stream: Any) -> tuple[View, int]:
    """A view of a tensor for use on the stream, by default its framework's current one."""
    given = None if stream is None else stream_handle(stream)
    source = view(tensor, name, given)
    current = source.framework.current_stream
    return source, current(source.spec.device) if given is None else given


def prepare_call(input: Any, weight: Any, bias: Any, residual: Any, out: Any, stream: Any) -> Call:
    """Views of the tensors, ready for use on the stream: by default the input's current one.

    The weight may be a View already.
    """
    given = None if stream is None else stream_handle(stream)
    source = view(input, "input", given)
    current = source.framework.current_stream(source.spec.device)
    handle = current if given is None else given
    views = (
        source,
        weight if weight.__class__ is View else view(weight, "weight", handle),
        None if bias is None else view(bias, "bias", handle),
        None if residual is None else view(residual, "residual", handle),
        None if out is None else view(out, "out", handle),
    )
    return new(Call, (*views, handle, handle == current))
