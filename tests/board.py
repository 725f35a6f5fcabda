"""Many calls on tensors that lie in one allocation: one copy to the device, and one back."""

from typing import Any

import numpy as np

import capi
from im2win._library import check, ffi, lib
from numerics import Array


class Board:
    """The tensors, between guards, `shift` bytes off their alignment."""

    def __init__(self, device: int, arrays: dict[str, Array], shift: int) -> None:
        self._spans = {name: capi.Span(array) for name, array in arrays.items()}
        self._places: dict[str, slice] = {}
        end = 0
        for name, span in self._spans.items():
            begin = (-(-end // capi.GUARD) + 1) * capi.GUARD
            begin += 0 if name.startswith("workspace") else shift
            end = begin + span.content.size
            self._places[name] = slice(begin, end)
        self._content = np.full(end + capi.GUARD, capi.POISON, np.uint8)
        for name, span in self._spans.items():
            self._content[self._places[name]] = span.content
        self._memory = capi.Memory(device, self._content)

    def address(self, name: str) -> Any:
        """Of element [0, 0, 0, 0]; NULL of what there is not."""
        if name not in self._spans:
            return ffi.NULL
        begin = self._places[name].start + self._spans[name].offset
        return capi.address(self._memory.address + begin)

    def read(self, written: list[str]) -> tuple[dict[str, Array], set[str]]:
        """What was written; and the names of tensors in, or right behind, which bytes were written
        that should not have been. Workspaces may have any content.
        """
        content, expected = self._memory.read(), self._content.copy()
        result = {name: self._spans[name].view(content[self._places[name]]) for name in written}
        for name, place in self._places.items():
            if name in written:
                self._spans[name].view(expected[place])[...] = result[name]
            elif name.startswith("workspace"):
                expected[place] = content[place]
        begins = [place.start for place in self._places.values()]
        strayed = np.flatnonzero(content != expected)
        behind = np.searchsorted(begins, strayed, side="right") - 1
        names = list(self._places)
        return result, {names[max(i, 0)] for i in behind.tolist()}

    def convolve(self, plan: Any, source: str, weight: str, target: str, workspace: str) -> None:
        pointers = [self.address(name) for name in (source, weight)]
        written = self.address(target), self.address(workspace), capi.workspace_bytes(plan)
        check(lib.im2win_conv2d(plan, *pointers, ffi.NULL, ffi.NULL, *written, ffi.NULL))
