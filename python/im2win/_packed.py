"""PackedConv: a convolution prepared once, with its weight, for many calls."""

from typing import Any

from im2win._arguments import Options
from im2win._call import prepare_call, view_on_stream
from im2win._dispatch import make_plan
from im2win._fit import Fit, check_like
from im2win._shapes import Tensors


class PackedConv:
    """A plan with its weight: what `pack` returns.

    Attributes:
        algorithm, output_shape, workspace_bytes: as the plan's, for a call without a weight.

    Immutable, and safe to share between threads.
    """

    def __init__(self, planned: Tensors, options: Options, weight: Any, stream: Any) -> None:
        source, handle = view_on_stream(weight, "weight", stream)
        anywhere = planned.weight._replace(strides=source.spec.strides)
        check_like("weight", source.spec, anywhere)
        specs = planned._replace(weight=source.spec)
        self._execution = make_plan(specs, options, packed_filter=True)
        with source.framework.using_stream(handle, source.spec.device):
            self._weight = self._execution.pack(source, handle)
        self._fit = Fit(specs, self._execution.output)
        self.algorithm = self._execution.algorithm
        self.output_shape = self._execution.output.shape
        self.workspace_bytes = self._execution.workspace_bytes

    def __call__(
        self,
        input: Any,
        bias: Any = None,
        residual: Any = None,
        *,
        out: Any = None,
        stream: Any = None,
    ) -> Any:
        """Convolves; tensors, stream, result and errors are those of the plan."""
        call = prepare_call(input, self._weight, bias, residual, out, stream)
        self._fit.check(call.specs())
        return self._execution.run(call)
