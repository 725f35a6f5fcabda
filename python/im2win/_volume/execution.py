"""A plan for three-dimensional tensors of given specs, and how to run it on tensors."""

from typing import Any

from im2win._arguments import Options, byte_limit
from im2win._call import Call
from im2win._execution import aligned_bytes
from im2win._library import Im2winError
from im2win._shapes import Tensors
from im2win._tensors.spec import View
from im2win._volume.overlap import check_out
from im2win._volume.part import PackedTaps, VolumePart
from im2win._volume.problem import Addresses, Volume, describe_volume

_TOO_SMALL = "IM2WIN_WORKSPACE_TOO_SMALL"


class VolumeExecution:
    """What Execution is to fewer dimensions; a workspace limit is kept by splitting the batch."""

    def __init__(self, tensors: Tensors, options: Options, *, packed_filter: bool = False) -> None:
        self._volume, self.output = describe_volume(tensors, options)
        self._depth_axis = options.layout[-len(self.output.shape) :].index("D")
        self._packed_filter = packed_filter
        limit = byte_limit(options.workspace_limit)
        self._part = _largest_part(self._volume, limit, packed_filter)
        self._parts = _all_parts(self._volume, self._part, limit, packed_filter)
        self.workspace_bytes = max([part.workspace_bytes for part in self._parts.values()] or [0])

    @property
    def algorithm(self) -> str:
        """Of the planes that see the most taps, as is what `algorithms` returns."""
        return self._part.most_taps.algorithm

    def algorithms(self) -> dict[str, str | None]:
        return self._part.most_taps.algorithms()

    def run(self, call: Call) -> Any:
        """Convolves tensors of the specs; returns the output."""
        check_out(call, self._depth_axis)
        return call.on_stream(self._run)

    def _run(self, call: Call) -> Any:
        source, weight, bias, residual, _, stream, _ = call
        output, address = call.output(self.output)
        if 0 in self.output.shape:
            return output
        memory = 0
        if self.workspace_bytes:
            _buffer, memory = aligned_bytes(source, self.workspace_bytes, stream)
        bias_address = 0 if bias is None else bias.address
        residual_address = 0 if residual is None else residual.address
        whole = Addresses(source.address, weight.address, bias_address, residual_address, address)
        for image, part in self._parts.items():
            packed = weight.tensor[part] if self._packed_filter else {}
            part.run(self._volume.at_image(whole, image), packed, memory, stream)
        return output

    def pack(self, weight: View, stream: int) -> View:
        """What `run` takes in the place of the weight. Its address is 0 if the weight may go."""
        packed: dict[VolumePart, PackedTaps] = {
            part: part.pack(weight, stream) for part in set(self._parts.values())
        }
        owners = [owner for taps in packed.values() for _, owner in taps.values()]
        address = weight.address if any(owner is weight for owner in owners) else 0
        return weight._replace(address=address, tensor=packed, owner=None)


def _largest_part(volume: Volume, limit: int | None, packed_filter: bool) -> VolumePart:
    """As much of the batch as keeps the limit with the algorithms of no limit; else, of others."""
    best = VolumePart(volume, None, packed_filter)
    if limit is None or volume.images == 0:
        return best
    fitting: VolumePart | None = None
    images = volume.images
    while True:
        try:
            part = VolumePart(volume.with_images(images), limit, packed_filter)
        except Im2winError as error:
            if error.status != _TOO_SMALL:
                raise
            reason = error
        else:
            if part.algorithms == best.algorithms:
                return part
            fitting = fitting or part
        if images <= 1:
            break
        images = -(-images // 2)
    if fitting is None:
        message = f"workspace_limit is {limit}, too little even for one image at a time: {reason}"
        raise Im2winError(message, _TOO_SMALL) from None
    return fitting


def _all_parts(
    volume: Volume, part: VolumePart, limit: int | None, packed_filter: bool
) -> dict[int, VolumePart]:
    """The parts by their first image: copies of one, and a smaller one for what remains."""
    size = max(part.images, 1)
    rest = volume.images % size
    parts = dict.fromkeys(range(0, volume.images - rest, size), part)
    if rest:
        parts[volume.images - rest] = VolumePart(volume.with_images(rest), limit, packed_filter)
    return parts
