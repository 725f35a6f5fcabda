"""The depth axis of a three-dimensional convolution: which planes see which."""

from typing import NamedTuple

from im2win._arguments import Window

_MOST_OUTPUTS = 2**31


class Taps(NamedTuple):
    """The planes of the filter that lie inside the input, for one plane of the output."""

    first: int
    number: int
    plane: int  # of the input, under the first of them


class Depth:
    """Errors: ValueError for sizes that are not positive, or a filter larger than the input."""

    def __init__(self, size: int, kernel: int, window: Window) -> None:
        self._size, self._kernel = size, kernel
        (self._stride, *_), (self._dilation, *_) = window.stride, window.dilation
        self._front, back = window.padding[0]
        for name, value, least in (
            ("d", size, 1),
            ("t", kernel, 1),
            ("stride_d", self._stride, 1),
            ("dilation_d", self._dilation, 1),
            ("padding_front", self._front, 0),
            ("padding_back", back, 0),
        ):
            if value < least:
                raise ValueError(f"{name} is {value}, expected at least {least}")
        reach, padded = self._dilation * (kernel - 1) + 1, size + self._front + back
        if reach > padded:
            raise ValueError(
                f"the filter's depth is {kernel}, {reach} with dilation {self._dilation}: expected "
                f"at most the padded input's, {padded}"
            )
        self.outputs = (padded - reach) // self._stride + 1
        if self.outputs > _MOST_OUTPUTS:
            raise ValueError(f"the output's depth is {self.outputs}, expected at most 2^31")

    def taps(self, output: int) -> Taps:
        """What a plane of the output sees; none where it is nothing but padding."""
        begin = output * self._stride - self._front
        first = max(0, -(begin // self._dilation))
        end = min(self._kernel, (self._size - 1 - begin) // self._dilation + 1)
        if end <= first:
            return Taps(0, 0, 0)
        return Taps(first, end - first, begin + first * self._dilation)
