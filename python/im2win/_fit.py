"""Whether the tensors of a call are those that a plan was made for."""

from im2win._shapes import Output, Tensors
from im2win._tensors.spec import Shape, TensorSpec, device_name


class Fit:
    """Checks tensors against those of a plan; they may only differ in what they hold.

    A planned `out` has to be given. Without one, a call may give any that is as the plan's output.
    """

    def __init__(self, planned: Tensors, output: Output) -> None:
        self._planned = planned
        self._output = planned.input._replace(shape=output.shape, strides=output.strides)
        self._fitting: Tensors | None = None  # the last that were seen to fit

    def check(self, given: Tensors) -> None:
        """Errors: TypeError or ValueError unless the tensors are those of the plan."""
        if given == self._fitting:
            return
        planned = self._planned
        if given.out is not None:
            planned = planned._replace(out=self._output)
            if given.out.readonly:
                raise ValueError("out is read-only, expected a tensor that can be written to")
        for name, have, want in zip(Tensors._fields, given, planned, strict=True):
            check_like(name, have, want)
        self._fitting = given


def check_like(name: str, have: TensorSpec | None, want: TensorSpec | None) -> None:
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
    if tuple(have.shape) != tuple(want.shape):
        raise ValueError(f"{name} has shape {tuple(have.shape)}, the plan {tuple(want.shape)}")
    if not _same_steps(have.shape, have.strides, want.strides):
        raise ValueError(
            f"{name} has strides {tuple(have.strides)}, the plan {tuple(want.strides)}: "
            "to plan for tensors as they lie in memory, use the plan's `like`"
        )


def _same_steps(shape: Shape, a: Shape, b: Shape) -> bool:
    """Whether these strides are the same, up to those of axes along which nobody steps."""
    steps = zip(shape, a, b, strict=True)
    return 0 in shape or all(size == 1 or one == other for size, one, other in steps)
