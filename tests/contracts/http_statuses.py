"""What statuses of any OpenStack service mean to its client: (status, error)."""

from whimbrel.domain.errors import NotFound, Refused, Unavailable

EVERYWHERE = [
    *((400, Refused), (403, Refused), (404, NotFound)),
    *((401, Unavailable), (429, Unavailable), (500, Unavailable), (503, Unavailable)),
]
