"""Remembers which replica has cached which prefixes."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterator, Mapping

# Prefixes are remembered in blocks of _BLOCK characters, up to _MOST_BLOCKS blocks.
_BLOCK = 64
_MOST_BLOCKS = 256
# A shorter known prefix than this part of a prompt does not bind it to a replica. The least busy one computes the
# prefix again, and then several replicas have it.
_LEAST_PART = 0.25
# A replica with this many more requests than the least busy one is not preferred for its prefixes.
_SLACK = 16


class PrefixMemory:
    """Routes prompts with a common prefix to the same replica, and others to the least busy one.

    Replicas are not queried. The router remembers the `most` blocks that it sent last."""

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
        """Forgets a replica that is gone with its cache."""
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
    """A hash for each whole block, of the string up to its end."""
    key = 0
    for end in range(_BLOCK, min(len(text), _BLOCK * _MOST_BLOCKS) + 1, _BLOCK):
        key = hash((key, text[end - _BLOCK : end]))
        yield key
