"""What an errand knows that plugs or unplugs an interface."""

from collections.abc import Mapping

import msgspec

from whimbrel.domain.operation_facts import OperationFacts
from whimbrel.domain.pci import DIRECT
from whimbrel.domain.run import Run
from whimbrel.domain.server_devices import Nic, RequestedNic
from whimbrel.servers.allocations.port_allocations import Claim


class InterfaceFacts(OperationFacts, frozen=True, kw_only=True, omit_defaults=True):
    requested: RequestedNic = msgspec.field(name="wish")  # as the journal calls it
    zone: str  # its name, for the port
    mac: str = ""  # of a port to be made: by it the port is found again
    security_groups: tuple[str, ...] = ()
    nic: Nic | None = None  # as the record is to have it, or has it
    held: Claim | None = None  # by the server before
    claim: Claim | None = None  # what it is to hold; None: as before
    served: Mapping[str, str] | None = None  # which provider serves which request of the port


InterfaceOperation = Run[InterfaceFacts]


def nic_of(run: InterfaceOperation) -> Nic:
    assert run.facts.nic, "plugged before it was learned"
    return run.facts.nic


def names_port(facts: InterfaceFacts) -> bool:
    return facts.requested.port_id is not None


def has_function(facts: InterfaceFacts) -> bool:
    """Tell whether the port is served by a virtual function of its own."""
    return facts.nic is not None and facts.nic.vnic_type == DIRECT


def changes_claim(facts: InterfaceFacts) -> bool:
    return facts.claim is not None
