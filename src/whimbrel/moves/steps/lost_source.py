"""A source that never returns, as an operator has declared, on evidence. What can only be undone there is skipped.

A process of an older release erases the fact when it saves the run, and waits for the source's agent. So no source is
given up while one is live, and none may be started before the run has ended.
"""

from whimbrel.domain.errors import Unavailable
from whimbrel.moves.facts import Move, key_at, source_of
from whimbrel.ports.cloud import Cloud


async def is_lost(move: Move, cloud: Cloud) -> bool:
    """Check whether the source was given up and does not answer. If it answers after all, it is undone as usual."""
    if move.facts.source_lost is None:
        return False
    source = source_of(move)
    try:
        await cloud.agent(source.cell, source.host).look(key_at(move, source))
    except Unavailable:
        return True
    return False
