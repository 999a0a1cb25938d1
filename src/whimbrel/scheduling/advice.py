"""Advice where no host was found: the smallest change for an operator, an alternative request for an owner.

Invariant: an owner sees no names of hosts, aggregates or other servers, only numbers of hosts and amounts.
"""

from os_resource_classes import PCPU

from whimbrel.domain.resources import DISK_GB, MEMORY_MB, VCPU
from whimbrel.scheduling.constraint import Reason
from whimbrel.scheduling.decision import DecisionTrace, Miss
from whimbrel.scheduling.filters.by_request import ZONE

SIZES = frozenset({VCPU, PCPU, MEMORY_MB, DISK_GB})
"""Resource classes that a smaller flavor requests less of."""


def smallest_change(record: DecisionTrace) -> str | None:
    """Return the smallest change that makes one host fit; None: a host was found, or no near misses are known. If no
    change would help, return the nearest miss.
    """
    if record.chosen or not record.misses:
        return None
    for miss in record.misses:
        if _can_be_fixed(miss):
            return f"{miss.host} would fit with {'; and with '.join(miss.remedies)}."
    nearest = record.misses[0]
    return f"{nearest.host} comes nearest, but {'; '.join(reason.words for reason in nearest.reasons)}."


def change_for_owner(record: DecisionTrace) -> str | None:
    """Return what an owner could request instead or wait for; None: a host was found, or the owner cannot change it."""
    if record.chosen:
        return None
    return next((sentence for miss in record.misses if _can_be_fixed(miss) and (sentence := _for_owner(miss))), None)


def _can_be_fixed(miss: Miss) -> bool:
    return len(miss.remedies) == len(miss.reasons)


def _for_owner(miss: Miss) -> str | None:
    elsewhere = [reason for reason in miss.reasons if reason.constraint == ZONE]
    amounts = [reason for reason in miss.reasons if reason.resource is not None]
    if len(elsewhere) + len(amounts) < len(miss.reasons):
        return None
    where = " in another availability zone" if elsewhere else ""
    if not amounts:
        return f"It would fit{where}."
    if all(reason.free and reason.resource in SIZES for reason in amounts):
        return f"A flavor with at most {_listed([_there_is(reason) for reason in amounts])} would fit{where}."
    return f"It would fit with {_listed([_more(reason) for reason in amounts])} more free on a host{where}."


def _there_is(reason: Reason) -> str:
    return f"{reason.free} {reason.resource}"


def _more(reason: Reason) -> str:
    return f"{(reason.asked or 0) - (reason.free or 0)} {reason.resource}"


def _listed(amounts: list[str]) -> str:
    return " and ".join(amounts)
