"""Enable and disable hosts for new servers. The scheduler reads the row and the trait, claims check the trait.

Invariant: once the trait is set, no claim that was decided before it is made: see HostRule.
"""

from contextlib import suppress

import structlog

from whimbrel.domain.errors import NotFound, Unavailable
from whimbrel.domain.host import ForcedDown, Host
from whimbrel.ports.cloud import Cloud

log = structlog.get_logger(__name__)


async def switch(cloud: Cloud, host: Host, *, enabled: bool, reason: str | None) -> Host:
    """Enable or disable a host; its other settings stay. Repeatable. Raises: NotFound; Unavailable."""
    hosts = cloud.cell(host.cell).hosts
    changed = await hosts.set_service(host.name, enabled=enabled, disabled_reason=reason, forced_down=None)
    await mirror_in_placement(cloud, host, disabled=not enabled)
    return changed


def word_of(host: Host) -> ForcedDown:
    """Return the stored word of an administrator that the host is down."""
    return ForcedDown(by=host.forced_down_by, reason=host.forced_down_reason, at=host.forced_down_at)


async def mirror_in_placement(cloud: Cloud, host: Host, *, disabled: bool) -> None:
    """Mirror the status as a trait. A failure is only logged: a host reports its offer, with the trait, again."""
    try:
        await set_trait(cloud, host, disabled=disabled)
    except Unavailable as error:
        log.warning("the disabled state of a host was not written to Placement", host=host.name, reason=error.reason)


async def set_trait(cloud: Cloud, host: Host, *, disabled: bool) -> None:
    """Set or remove the trait that claims check. A host without a provider has no claims. Repeatable.

    Raises: Unavailable.
    """
    with suppress(NotFound):
        await cloud.placement.set_disabled(host.id, disabled)
