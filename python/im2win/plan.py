"""Conv2dPlan and PackedConv2d: a convolution prepared once, for many calls."""

from collections.abc import Sequence
from typing import Any

from im2win._arguments import Activation, Options, Padding, PerAxis, integer
from im2win._call import prepare_call, view_on_stream
from im2win._execution import Execution
from im2win._problem import describe
from im2win._shapes import Tensors
from im2win._tensors.spec import (
    DTYPE_CODES,
    TensorSpec,
    dense_strides,
    device_name,
    dtype_error,
    is_dense,
    parse_device,
)


class Conv2dPlan:
    """The convolution of tensors of given shapes, all dense in memory as their shapes say.

    The arguments and the errors are those of conv2d, with shapes in the place of tensors; besides:

    Args:
        dtype: of all tensors: "float64", "float32", "float16" or "bfloat16".
        bias: whether there is one, or its dtype.
        residual: whether there is one.
        device: where the tensors are: "cpu", "cuda" or "cuda:1".
        threads: of the CPU; 0 is OpenMP's default.

    Attributes:
        output_shape: (N, K, P, Q), or as layout and an unbatched input have it.
        workspace_bytes: extra memory that a call takes from the allocator of the output.

    Immutable, and safe to share between threads.
    """

    def __init__(
        self,
        input_shape: Sequence[int],
        weight_shape: Sequence[int],
        *,
        dtype: str = "float32",
        bias: bool | str = False,
        stride: PerAxis = 1,
        padding: Padding = 0,
        dilation: PerAxis = 1,
        groups: int = 1,
        device: str = "cpu",
        algorithm: str | None = None,
        math: str | None = None,
        layout: str = "NCHW",
        activation: Activation = None,
        residual: bool = False,
        alpha: float = 1.0,
        beta: float = 1.0,
        workspace_limit: int | None = None,
        threads: int = 0,
    ) -> None:
        ordinal = parse_device(device)
        bias_dtype = bias if isinstance(bias, str) else dtype
        self._specs = Tensors(
            input=_dense_spec("input", input_shape, dtype, ordinal),
            weight=_dense_spec("weight", weight_shape, dtype, ordinal),
            bias=_dense_spec("bias", weight_shape[:1], bias_dtype, ordinal) if bias else None,
            residual=None,
            out=None,
        )
        geometry = (2, stride, padding, dilation, groups)
        choices = (algorithm, math, layout, activation, alpha, beta, workspace_limit, threads)
        options = Options(*geometry, *choices)
        if residual:
            _, output = describe(self._specs, options)
            like_output = _dense_spec("residual", output.shape, dtype, ordinal)
            self._specs = self._specs._replace(residual=like_output)
        self._options = options
        self._execution = Execution(self._specs, options)
        self._fitting: Tensors | None = None  # the last that were seen to fit
        self.output_shape = self._execution.output_shape
        self.workspace_bytes = self._execution.workspace_bytes

    @property
    def algorithm(self) -> str:
        """The name of the algorithm that runs."""
        return self._execution.algorithm

    def algorithms(self) -> dict[str, str | None]:
        """Each algorithm of the device, best first: None if it takes this problem, or why not."""
        return self._execution.algorithms()

    def __call__(
        self,
        input: Any,
        weight: Any,
        bias: Any = None,
        residual: Any = None,
        *,
        out: Any = None,
        stream: Any = None,
    ) -> Any:
        """Convolves; tensors, stream and result are as with conv2d.

        Errors: TypeError and ValueError for tensors that do not fit the plan; those of conv2d.
        """
        call = prepare_call(input, weight, bias, residual, out, stream)
        self._check_fit(call.specs())
        return self._execution.run(call)

    def pack(self, weight: Any, *, stream: Any = None) -> "PackedConv2d":
        """The plan with this weight, rearranged once instead of in every call.

        Where the algorithm rearranges the weight, later changes of it make no difference; where it
        takes it as it is, the weight itself is kept. On CUDA the weight is read on `stream`, by
        default the current one, and calls on another one have to be ordered after that.

        Errors: as a call's.
        """
        return PackedConv2d(self, weight, stream)

    def _check_fit(self, given: Tensors) -> None:
        """Errors: TypeError or ValueError unless the tensors are those of the plan."""
        if given == self._fitting:
            return
        planned = self._specs
        if given.out is not None:
            planned = planned._replace(out=planned.input._replace(shape=self.output_shape))
            if given.out.readonly:
                raise ValueError("out is read-only, expected a tensor that can be written to")
        for name, have, want in zip(Tensors._fields, given, planned, strict=True):
            _check_fit(name, have, want)
        self._fitting = given


class PackedConv2d:
    """A plan with its weight: what `Conv2dPlan.pack` returns.

    Attributes:
        algorithm, output_shape, workspace_bytes: as the plan's, for a call without a weight.

    Immutable, and safe to share between threads.
    """

    def __init__(self, plan: Conv2dPlan, weight: Any, stream: Any) -> None:
        self._plan = plan
        source, handle = view_on_stream(weight, "weight", stream)
        _check_fit("weight", source.spec, plan._specs.weight)
        self._execution = Execution(plan._specs, plan._options, packed_filter=True)
        with source.framework.using_stream(handle, source.spec.device):
            self._weight = self._execution.pack(source, handle)
        self.algorithm = self._execution.algorithm
        self.output_shape = self._execution.output_shape
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
        self._plan._check_fit(call.specs())
        return self._execution.run(call)


def _dense_spec(name: str, shape: Sequence[int], dtype: str, device: int) -> TensorSpec:
    if dtype not in DTYPE_CODES:
        raise dtype_error(name, dtype)
    sizes = tuple(integer(f"{name}_shape", size) for size in shape)
    return TensorSpec(sizes, dense_strides(sizes), dtype, device, readonly=False)


def _check_fit(name: str, have: TensorSpec | None, want: TensorSpec | None) -> None:
    """Errors: TypeError or ValueError unless a tensor is the one that the plan is for."""
    if have is None or want is None:
        if have is not want:
            problem = "missing, and the plan has one" if have is None else "given, not planned"
            raise ValueError(f"{name} is {problem}")
        return
    if have.dtype != want.dtype:
        raise TypeError(f"{name} has dtype {have.dtype}, the plan {want.dtype}")
    if have.device != want.device:
        have_device, want_device = device_name(have.device), device_name(want.device)
        raise ValueError(f"{name} is on {have_device}, the plan on {want_device}")
    if tuple(have.shape) != want.shape:
        raise ValueError(f"{name} has shape {tuple(have.shape)}, the plan {want.shape}")
    if not is_dense(have.shape, have.strides):
        raise ValueError(f"{name} has strides {have.strides}, the plan {dense_strides(have.shape)}")
