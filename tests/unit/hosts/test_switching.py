"""Hosts that are enabled and disabled while administrators say whether they are down."""

import pytest

from whimbrel.domain.host import ForcedDown
from whimbrel.domain.ids import CellName, HostName
from whimbrel.hosts.switching import switch
from whimbrel.sim.cloud.cloud import World

H1 = HostName("h1")
WORD = ForcedDown(by="ann", reason="no power", at=5.0)


@pytest.mark.parametrize("is_down", [True, False])
async def test_a_host_that_was_read_before_an_administrator_spoke_keeps_that_word(is_down: bool) -> None:
    """Otherwise a word that was taken back would be evidence for evacuations again."""
    world = await World.build(cells={"c1": ("h1",)})
    hosts = world.cloud.cell(CellName("c1")).hosts
    before = {"enabled": True, "disabled_reason": None}
    await hosts.set_service(H1, **before, forced_down=not is_down, word=WORD)
    read = await hosts.get(H1)
    await hosts.set_service(H1, **before, forced_down=is_down, word=WORD)
    now = await switch(world.cloud, read, enabled=False, reason="maintenance")
    assert (now.enabled, now.forced_down, now.forced_down_by) == (False, is_down, "ann" if is_down else None)
    await world.close()
