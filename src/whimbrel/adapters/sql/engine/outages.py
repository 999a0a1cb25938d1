"""Distinguishes a database that is away for a while from one that can never be reached by its URL.

libpq has no error codes for failed connections, so its messages are read. An unknown message is no outage.
"""

import re

_OUTAGES = (
    "Connection refused",
    "Connection reset by peer",
    "Connection timed out",
    "No route to host",
    "Network is unreachable",
    "Host is unreachable",
    "timeout expired",
    "server closed the connection unexpectedly",
    "terminating connection due to",
    "the database system is ",  # starting up, shutting down, in recovery mode
    "the connection is lost",
    "the connection is closed",
    "session is read-only",  # the replica is not promoted yet
    "server is in hot standby mode",
    "cannot execute .* in a read-only transaction",
    "too many clients already",
    "remaining connection slots are reserved",
)
_OUTAGE = re.compile("|".join(_OUTAGES))
_ATTEMPT = re.compile(r"(?<=\s)- host: ")
"""Begins the line of each server, if the URL names several."""


def is_outage(reason: str) -> bool:
    """Check whether the reason of an Unavailable passes by itself: each server of the URL is down or fails over.

    False for a wrong password, user, database or host name.
    """
    summary, *attempts = _ATTEMPT.split(reason)
    return all(_OUTAGE.search(attempt) for attempt in attempts or [summary])
