"""Pack examples into windows of tokens: best fit, the longest first."""

from __future__ import annotations

from collections.abc import Sequence

_WORD_BITS = 1024
"""Rooms are marked in words of this many bits: a search looks at two numbers, not at a list."""


def pack(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Return bins of indices whose lengths add up to at most `capacity`; each index once.

    Best-fit decreasing: the longest example first, each into the fullest bin that still takes it.
    Bins come in the order of their first index, and so do the indices of a bin. The same lengths
    give the same bins. O(n log n), from sorting. A length that is negative or over the capacity
    raises ValueError.

    Source: D. S. Johnson, "Near-optimal bin packing algorithms" (1973): at most 11/9 of the least
    number of bins, and 2/3 of one.

    >>> pack([5, 9, 4, 1], 10)
    [[0, 2, 3], [1]]
    """
    if capacity < 1:
        raise ValueError(f"a window of {capacity} tokens holds nothing")
    rooms = _Rooms(capacity)
    bins: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda place: (-lengths[place], place)):
        length = lengths[index]
        if not 0 <= length <= capacity:
            raise ValueError(f"example {index} has {length} tokens, the window {capacity}")
        room, number = rooms.take(length)
        if number is None:
            room, number = capacity, len(bins)
            bins.append([])
        bins[number].append(index)
        rooms.put(room - length, number)
    return sorted(sorted(indices) for indices in bins)


class _Rooms:
    """Bins by the room they have left."""

    def __init__(self, capacity: int) -> None:
        self._bins: list[list[int]] = [[] for _ in range(capacity + 1)]
        self._words = [0] * (capacity // _WORD_BITS + 1)
        """Bit r of word w: some bin has the room `w * _WORD_BITS + r`."""
        self._filled = 0
        """Bit w: word w is not zero."""

    def take(self, length: int) -> tuple[int, int | None]:
        """Return the least room of at least `length` and a bin that has it, or no bin."""
        place, bit = divmod(length, _WORD_BITS)
        found = self._words[place] >> bit << bit
        if not found:
            later = self._filled >> (place + 1) << (place + 1)
            if not later:
                return 0, None
            place = _lowest_bit(later)
            found = self._words[place]
        room = place * _WORD_BITS + _lowest_bit(found)
        number = self._bins[room].pop()
        if not self._bins[room]:
            self._words[place] ^= 1 << room % _WORD_BITS
            if not self._words[place]:
                self._filled ^= 1 << place
        return room, number

    def put(self, room: int, number: int) -> None:
        """Remember a bin with the room it has left."""
        self._bins[room].append(number)
        place, bit = divmod(room, _WORD_BITS)
        self._words[place] |= 1 << bit
        self._filled |= 1 << place


def _lowest_bit(value: int) -> int:
    return (value & -value).bit_length() - 1
