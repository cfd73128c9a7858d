"""Which replica has read which beginnings of texts."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterator, Mapping

# Beginnings are known by blocks of so many characters, up to so many blocks.
_BLOCK = 64
_MOST_BLOCKS = 256
# A beginning that is less than this part of a text is read again by whoever has least to do: after that several have it.
_LEAST_PART = 0.25
# So many more requests may a replica have than the least busy one before its beginnings count no longer.
_SLACK = 16


class PrefixMemory:
    """Sends texts that begin alike to the same replica, and others to the one that has least to do.

    What a replica has read is not asked, but remembered from what it was sent: the `most` blocks that were met last."""

    def __init__(self, most: int = 1 << 18) -> None:
        self._most = most
        self._readers: OrderedDict[int, set[Hashable]] = OrderedDict()
        self._n_blocks: Counter[Hashable] = Counter()

    def choose(self, text: str, loads: Mapping[Hashable, int]) -> Hashable:
        """One of the replicas, whose loads are given: how many requests each has."""
        keys = list(_blocks(text))
        readers, n_known = set(loads), 0
        for n, key in enumerate(keys, 1):
            those = self._readers.get(key, set()) & loads.keys()
            if not those:
                break
            readers, n_known = those, n
        if n_known < _LEAST_PART * len(keys):
            readers = set(loads)
        least = min(loads.values())
        able = [reader for reader in readers if loads[reader] <= least + _SLACK] or list(loads)
        chosen = min(able, key=lambda reader: (loads[reader], self._n_blocks[reader]))
        for key in keys:
            self._add(key, chosen)
        return chosen

    def forget(self, replica: Hashable) -> None:
        """It is gone, and its cache with it."""
        for readers in self._readers.values():
            readers.discard(replica)
        del self._n_blocks[replica]

    def _add(self, key: int, replica: Hashable) -> None:
        readers = self._readers.setdefault(key, set())
        self._readers.move_to_end(key)
        if replica not in readers:
            readers.add(replica)
            self._n_blocks[replica] += 1
        if len(self._readers) > self._most:
            for reader in self._readers.popitem(last=False)[1]:
                self._n_blocks[reader] -= 1


def _blocks(text: str) -> Iterator[int]:
    """A number for each whole block, of all that stands up to its end."""
    key = 0
    for end in range(_BLOCK, min(len(text), _BLOCK * _MOST_BLOCKS) + 1, _BLOCK):
        key = hash((key, text[end - _BLOCK : end]))
        yield key
