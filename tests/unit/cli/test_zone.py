"""How zones look on a terminal."""

from tests.unit.cli.test_heal import lines
from whimbrel.api.views.zones import Zone
from whimbrel.cli import zone


def test_zones_are_shown_with_their_ids_and_hosts() -> None:
    zones = [
        Zone(id="7-7", name="north", is_default=False, hosts=["n1", "n2"]),
        Zone(id="nova", name="main", is_default=True, hosts=[]),
    ]
    assert lines(zone.shown(zones)) == [
        "zone   id    hosts",
        "north  7-7   n1, n2",
        "main   nova          default",
    ]
