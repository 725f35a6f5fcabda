"""Conv1dPlan, Conv2dPlan and Conv3dPlan: a convolution prepared once, for many calls."""

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from im2win._arguments import Activation, Options, Padding, PerAxis, integer
from im2win._call import prepare_call
from im2win._dispatch import make_plan
from im2win._fit import Fit
from im2win._packed import PackedConv
from im2win._shapes import Tensors
from im2win._tensors.spec import DTYPE_CODES, TensorSpec, dense_strides, dtype_error, parse_device

AnyPlan = TypeVar("AnyPlan", bound="ConvPlan")


class ConvPlan:
    """The convolution of tensors of given shapes, all dense in memory as their shapes say.

    For tensors that lie otherwise, such as PyTorch's channels_last ones, see `like`. The arguments
    and the errors are those of conv1d, conv2d or conv3d, with shapes in the place of tensors;
    besides:

    Args:
        dtype: of all tensors: "float64", "float32", "float16" or "bfloat16".
        bias: whether there is one, or its dtype.
        residual: whether there is one.
        device: where the tensors are: "cpu", "cuda" or "cuda:1".
        threads: of the CPU, up to 1024; 0 is OpenMP's default, or fewer for little to do.

    Attributes:
        output_shape: (N, K, P, Q) for conv2d, or as layout and an unbatched input have it.
        workspace_bytes: extra memory that a call takes from the allocator of the output.

    Immutable, and safe to share between threads.
    """

    _dims: ClassVar[int]
    _layout: ClassVar[str]

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
        layout: str | None = None,
        activation: Activation = None,
        residual: bool = False,
        alpha: float = 1.0,
        beta: float = 1.0,
        workspace_limit: int | None = None,
        threads: int = 0,
    ) -> None:
        geometry = (self._dims, layout or self._layout, stride, padding, dilation, groups)
        choices = (algorithm, math, activation, alpha, beta, workspace_limit, threads)
        options = Options(*geometry, *choices)
        ordinal = parse_device(device)
        bias_dtype = bias if isinstance(bias, str) else dtype
        specs = Tensors(
            input=_dense_spec("input", input_shape, dtype, ordinal),
            weight=_dense_spec("weight", weight_shape, dtype, ordinal),
            bias=_dense_spec("bias", weight_shape[:1], bias_dtype, ordinal) if bias else None,
            residual=None,
            out=None,
        )
        self._prepare(specs, options)
        if residual:
            like_output = _dense_spec("residual", self.output_shape, dtype, ordinal)
            self._prepare(specs._replace(residual=like_output), options)

    @classmethod
    def like(
        cls: type[AnyPlan],
        input: Any,
        weight: Any,
        bias: Any = None,
        residual: Any = None,
        *,
        out: Any = None,
        **options: Any,
    ) -> AnyPlan:
        """The plan for tensors with the shapes, strides, dtypes and device of these.

        Only `out`, if one is given, has to be given in every call; without, the output is in the
        memory order of the input. The options are stride, padding, dilation, groups, algorithm,
        math, layout, activation, alpha, beta, workspace_limit and threads.
        """
        plan = cls.__new__(cls)
        specs = prepare_call(input, weight, bias, residual, out, None).specs()
        plan._prepare(specs, Options(cls._dims, options.pop("layout", cls._layout), **options))
        return plan

    def _prepare(self, specs: Tensors, options: Options) -> None:
        self._specs, self._options = specs, options
        self._execution = make_plan(specs, options)
        self._fit = Fit(specs, self._execution.output)
        self.output_shape = self._execution.output.shape
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
        self._fit.check(call.specs())
        return self._execution.run(call)

    def pack(self, weight: Any, *, stream: Any = None) -> PackedConv:
        """The plan with this weight, of any strides, rearranged once instead of in every call.

        Where the algorithm rearranges the weight, later changes of it make no difference; where it
        takes it as it is, the weight itself is kept. On CUDA the weight is read on `stream`, by
        default the current one, and calls on another one have to be ordered after that.

        Errors: as a call's.
        """
        return PackedConv(self._specs, self._options, weight, stream)


class Conv1dPlan(ConvPlan):
    __doc__ = ConvPlan.__doc__
    _dims, _layout = 1, "NCW"


class Conv2dPlan(ConvPlan):
    __doc__ = ConvPlan.__doc__
    _dims, _layout = 2, "NCHW"


class Conv3dPlan(ConvPlan):
    """A convolution of volumes. `algorithm` and `algorithms` tell of its planes' convolutions.

    All else is as with Conv2dPlan.
    """

    _dims, _layout = 3, "NCDHW"


def _dense_spec(name: str, shape: Sequence[int], dtype: str, device: int) -> TensorSpec:
    if dtype not in DTYPE_CODES:
        raise dtype_error(name, dtype)
    sizes = tuple(integer(f"{name}_shape", size) for size in shape)
    return TensorSpec(sizes, dense_strides(sizes), dtype, device, readonly=False)
