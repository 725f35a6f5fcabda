"""Some images of a three-dimensional convolution: every plane is a two-dimensional one."""

from typing import Any, NamedTuple, TypeAlias

from im2win._execution import Execution, aligned, aligned_bytes
from im2win._library import Im2winError
from im2win._shapes import Tensors
from im2win._tensors.spec import View
from im2win._volume.planes import Planes
from im2win._volume.problem import Addresses, Volume, plane


class TapRange(NamedTuple):
    """The planes of the filter that lie inside the input."""

    first: int
    number: int


# For each range, the address of its weight as the convolution takes it, and what keeps it alive.
PackedTaps: TypeAlias = dict[TapRange, tuple[int, Any]]


class VolumePart:
    """The convolutions of planes, of which each has a channel for every (channel, depth tap).

    So every output is rounded once: adding up a convolution for every tap would round a float16
    output at every tap. Taps outside the input are left out, as padding contributes nothing. All
    planes that see the same taps use one rearranged weight.

    The memory of a call is, in this order: the copies of the input's and the weight's planes, what
    a convolution needs, and its rearranged weight. Immutable, and safe to share between threads.

    Errors: those of Execution; Im2winError where the limit does not even hold the copies.
    """

    def __init__(self, volume: Volume, limit: int | None, packed_filter: bool) -> None:
        self.images = volume.images
        self._volume, self._packed_filter = volume, packed_filter
        self._input = Planes(volume.input, volume.tap_step)
        self._weight = Planes(volume.weight, 1)
        self._outputs: dict[TapRange, list[int]] = {}  # the planes that see these taps
        for output, taps in enumerate(volume.taps):
            self._outputs.setdefault(TapRange(taps.first, taps.number), []).append(output)
        counts = {taps.number for taps in self._outputs}
        input_bytes = aligned(max(map(self._input.copy_bytes, counts)))
        weight_bytes = aligned(max(map(self._weight.copy_bytes, counts)))
        self._weight_begin, self._workspace_begin = input_bytes, input_bytes + weight_bytes
        left = _left(limit, self._workspace_begin)
        self._executions = {count: self._execution(count, left) for count in counts}
        executions = self._executions.values()
        if packed_filter:
            self._workspace_begin = input_bytes
            self.workspace_bytes = input_bytes + max(each.workspace_bytes for each in executions)
        else:
            self.workspace_bytes = self._workspace_begin + max(
                _packed_begin(each) + each.packed_filter_bytes for each in executions
            )

    @property
    def most_taps(self) -> Execution:
        """The convolution of the planes that see the most taps."""
        return self._executions[max(self._executions)]

    @property
    def algorithms(self) -> dict[int, str]:
        return {count: execution.algorithm for count, execution in self._executions.items()}

    def run(self, whole: Addresses, packed: PackedTaps, memory: int, stream: int) -> None:
        """Convolves; with packed_filter, the weight is what `pack` returned."""
        workspace = memory + self._workspace_begin
        for taps, outputs in self._outputs.items():
            execution = self._executions[taps.number]
            if self._packed_filter:
                weight, _ = packed[taps]
            else:
                copy, target = memory + self._weight_begin, workspace + _packed_begin(execution)
                weight = self._arrange(whole.weight, taps, copy, target, stream)
            for output in outputs:
                first = self._volume.taps[output].plane
                image = self._input.see(whole.input, first, taps.number, memory, stream)
                at = self._volume.at_output_plane(whole, output)
                scratch = workspace if execution.workspace_bytes else 0
                execution.launch(image, weight, *at[2:], scratch, stream)

    def pack(self, weight: View, stream: int) -> PackedTaps:
        """Every range of taps has a weight of its own; where it is taken as it is, the caller's."""

        def memory(size: int) -> tuple[Any, int]:
            return aligned_bytes(weight, size, stream) if size else (None, 0)

        packed: PackedTaps = {}
        for taps in self._outputs:
            copy_owner, copy = memory(self._weight.copy_bytes(taps.number))
            owner, target = memory(self._executions[taps.number].packed_filter_bytes)
            if owner is None:
                owner = weight if copy_owner is None else copy_owner
            packed[taps] = self._arrange(weight.address, taps, copy, target, stream), owner
        return packed

    def _arrange(self, weight: int, taps: TapRange, copy: int, target: int, stream: int) -> int:
        """The address of these taps' weight: where it is, in `copy`, or packed in `target`."""
        address = self._weight.see(weight, taps.first, taps.number, copy, stream)
        execution = self._executions[taps.number]
        if execution.packed_filter_bytes == 0:
            return address
        execution.pack_into(address, target, stream)
        return target

    def _execution(self, count: int, limit: int | None) -> Execution:
        """The convolution of planes that see so many taps."""
        volume = self._volume
        source, weight = self._input.image(count or 1), self._weight.image(count or 1)
        options = volume.plane_options._replace(workspace_limit=limit)
        if count == 0:  # windows that step over the one pixel of an image: they see -1, 1, 3...
            source, weight = (s._replace(shape=(*s.shape[:2], 1, 1)) for s in (source, weight))
            padding = [(1, 2 * (size - 1)) for size in volume.out.shape[3:]]
            options = options._replace(stride=2, padding=padding, dilation=1)
        residual = None if volume.residual is None else plane(volume.residual)
        tensors = Tensors(source, weight, volume.bias, residual, plane(volume.out))
        return Execution(tensors, options, packed_filter=True)


def _packed_begin(execution: Execution) -> int:
    return aligned(execution.workspace_bytes)


def _left(limit: int | None, copy_bytes: int) -> int | None:
    """What copies leave of the workspace."""
    if limit is None:
        return None
    if limit < copy_bytes:
        raise Im2winError(f"copies of planes need {copy_bytes}", "IM2WIN_WORKSPACE_TOO_SMALL")
    return limit - copy_bytes
