"""The quota usage of a server: counted once, also while it moves."""

from whimbrel.domain.flavor import Flavor
from whimbrel.moves.facts import Move, MoveFacts, old_flavor_of
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.journal import QuotaUsage
from whimbrel.saga.step import Decided


def larger(old: Flavor, new: Flavor) -> QuotaUsage:
    """Return the usage of a server that may end with either flavor."""
    return QuotaUsage(vcpus=max(old.vcpus, new.vcpus), memory_mib=max(old.memory_mib, new.memory_mib))


def larger_of(move: Move) -> QuotaUsage:
    """Return the usage with which a move was accepted."""
    return larger(old_flavor_of(move), move.facts.new_flavor)


async def book_larger(move: Move, cloud: Cloud) -> None:
    """Count the larger of both flavors."""
    quota_usage = larger_of(move)
    await cloud.directory.book(move.order, move.subject, quota_usage.vcpus, quota_usage.memory_mib)


async def book_old(move: Move, cloud: Cloud) -> None:
    old = old_flavor_of(move)
    await cloud.directory.book(move.order, move.subject, old.vcpus, old.memory_mib)


async def book_new(move: Move, cloud: Cloud) -> Decided[MoveFacts]:
    """Count the new flavor, in the transaction that saves the move."""
    new = move.facts.new_flavor
    return Decided(usage=QuotaUsage(vcpus=new.vcpus, memory_mib=new.memory_mib))
