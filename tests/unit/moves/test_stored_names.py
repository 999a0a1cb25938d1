"""Fields that have new names are written and read under the names that released versions gave them."""

import msgspec

from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.domain.server_devices import RequestedNic, RequestedVolume
from whimbrel.moves.facts import MoveFacts, ZoneRequest
from whimbrel.ports.placement.placement import Owner
from whimbrel.servers.devices.interface_facts import InterfaceFacts

FACTS = MoveFacts(
    owner=Owner(ProjectId("p"), UserId("u")),
    name="s",
    image_id=None,
    new_flavor=Flavor(flavor_id="1", name="small", vcpus=1, memory_mib=1, root_gib=1),
    zone_request=ZoneRequest(zone="z"),
    requested_nics=(RequestedNic(network_id="n"),),
    requested_volumes=(RequestedVolume(size_gib=1),),
)


def test_facts_of_moves_keep_their_names() -> None:
    stored = msgspec.to_builtins(FACTS)
    assert {"zone_wish", "wished_nics", "wished_volumes"} <= stored.keys()
    assert msgspec.convert(stored, MoveFacts) == FACTS


def test_facts_of_interfaces_keep_their_names() -> None:
    assert {field.name: field.encode_name for field in msgspec.structs.fields(InterfaceFacts)}["requested"] == "wish"
