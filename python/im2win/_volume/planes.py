"""Several planes of a volume, seen as the channels of one image."""

from im2win._library import check, ffi, lib
from im2win._problem import input_descriptor
from im2win._tensors.spec import ITEMSIZES, Shape, TensorSpec, dense_strides


class Planes:
    """An input or a weight, `count` planes of which, `step` apart, are seen as an image.

    Channel c of plane t becomes channel c * count + t. Where strides cannot say that, the planes
    are copied, channels last: by the im2win transform, whose rows, here the depth, come in the
    order of windows, and whose columns are the channels. The copy of a window is then
    T[n, pixel, 0, c * count + t].
    """

    def __init__(self, spec: TensorSpec, step: int) -> None:
        """Of a spec in the order N C D H W."""
        self._spec, self._step = spec, step
        self._sizes, self._strides = spec.shape, spec.strides
        self._itemsize = ITEMSIZES[spec.dtype]

    def image(self, count: int) -> TensorSpec:
        """What is seen, as N C H W."""
        (n, c, _, h, w), (step_n, _, _, step_h, step_w) = self._sizes, self._strides
        channel = self._channel(count)
        if channel is None:
            step_n, step_h, step_w, channel = dense_strides((n, h, w, c * count))
        return self._spec._replace(
            shape=(n, c * count, h, w), strides=(step_n, channel, step_h, step_w)
        )

    def copy_bytes(self, count: int) -> int:
        """The memory of a copy; 0 where the strides do without one."""
        n, c, _, h, w = self._sizes
        return 0 if self._channel(count) is not None else n * c * count * h * w * self._itemsize

    def see(self, address: int, plane: int, count: int, memory: int, stream: int) -> int:
        """The address of the image, from that of the tensor; in `memory` where it is a copy."""
        begin = address + plane * self._strides[2] * self._itemsize
        if self.copy_bytes(count) == 0:
            return begin
        self._copy(begin, memory, count, stream)
        return memory

    def _copy(self, source: int, target: int, count: int, stream: int) -> None:
        (n, c, _, h, w), (step_n, _, _, step_h, step_w) = self._sizes, self._strides
        pixel = _joined(h, step_h, w, step_w)
        if pixel is not None:
            self._transform(source, target, count, (n, h * w), (step_n, pixel), stream)
            return
        for image in range(n):
            begin = source + image * step_n * self._itemsize
            end = target + image * h * w * c * count * self._itemsize
            self._transform(begin, end, count, (h, w), (step_h, step_w), stream)

    def _transform(
        self, source: int, target: int, count: int, sizes: Shape, strides: Shape, stream: int
    ) -> None:
        (outer, inner), (step_outer, step_inner) = sizes, strides
        shape = (outer, inner, (count - 1) * self._step + 1, self._sizes[1])
        steps = (step_outer, step_inner, self._strides[2], self._strides[1])
        desc = input_descriptor(self._spec._replace(shape=shape, strides=steps), "NCHW")
        desc.k, desc.r, desc.s, desc.dilation_h = 1, count, 1, self._step
        size = ffi.new("size_t *")
        check(lib.im2win_transform_bytes(desc, size))
        input, output, handle = (ffi.cast("void *", each) for each in (source, target, stream))
        check(lib.im2win_transform(desc, self._spec.device, input, output, size[0], handle))

    def _channel(self, count: int) -> int | None:
        """The stride of (channel, plane) as one axis, if there is such a stride."""
        return _joined(self._sizes[1], self._strides[1], count, self._step * self._strides[2])


def _joined(outer: int, step_outer: int, inner: int, step_inner: int) -> int | None:
    """The stride of two axes as one, the inner one fastest; None if they have no common stride."""
    if inner == 1:
        return step_outer
    return step_inner if outer == 1 or step_outer == inner * step_inner else None
