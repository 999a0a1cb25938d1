"""Times, as the `openstack` command shows them."""

from datetime import UTC, datetime


def moment(when: float | None) -> str | None:
    """when: seconds since 1970."""
    return None if when is None else datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
