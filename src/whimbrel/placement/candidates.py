"""Where a request could be placed: tree by tree, no further than is asked for.

Law: a tree gives its second candidate only when each tree that is looked at beside it has given its first, so that a
limit is not used up by one host with many devices. The work is bounded; how, choices.py says.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, islice

from whimbrel.placement.search import Request, Woods
from whimbrel.placement.tree_search import Candidate, Quest, ways_in

ABREAST = 1024
"""How many trees give their candidates in turns; the next ones follow when these have given all."""


def candidates(woods: Woods, request: Request) -> list[Candidate]:
    """List where the request could be placed, each way once."""
    quest = Quest(woods, request)
    if quest.is_hopeless:
        return []
    ways = (ways_in(quest, root) for root in woods.roots(request))
    found = _in_turns(ways)
    if quest.sharing:
        found = _once(found)
    return list(islice(found, request.limit))


def _in_turns(ways: Iterator[Iterator[Candidate]]) -> Iterator[Candidate]:
    for way in ways:  # looked for only when it is its turn: a limit may come before
        yield from _abreast(chain((way,), islice(ways, ABREAST - 1)))


def _abreast(ways: Iterable[Iterator[Candidate]]) -> Iterator[Candidate]:
    while ways:
        going = []
        for way in ways:
            candidate = next(way, None)
            if candidate is not None:
                going.append(way)
                yield candidate
        ways = going


def _once(found: Iterable[Candidate]) -> Iterator[Candidate]:
    """Leave out what was there: what sharing providers give all by themselves is found in each tree beside them."""
    seen = set()
    for candidate in found:
        taken = frozenset(
            (uuid, name, amount) for uuid, given in candidate.parts.items() for name, amount in given.items()
        )
        key = taken, frozenset((suffix, frozenset(uuids)) for suffix, uuids in candidate.mappings.items())
        if key not in seen:
            seen.add(key)
            yield candidate
