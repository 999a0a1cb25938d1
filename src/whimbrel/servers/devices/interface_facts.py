"""Facts of the operations that attach or detach an interface."""

from collections.abc import Mapping

import msgspec

from whimbrel.domain.operation_facts import OperationFacts
from whimbrel.domain.pci import DIRECT
from whimbrel.domain.run import Run
from whimbrel.domain.server_devices import Nic, RequestedNic
from whimbrel.servers.allocations.port_allocations import Claim


class InterfaceFacts(OperationFacts, frozen=True, kw_only=True, omit_defaults=True):
    requested: RequestedNic = msgspec.field(name="wish")  # the journal's name
    zone: str  # zone name, for the port
    mac: str = ""  # of a port to be created, which is found again by it
    security_groups: tuple[str, ...] = ()
    nic: Nic | None = None  # as the record has it or will have it
    held: Claim | None = None  # the server's claim before
    claim: Claim | None = None  # the claim to set; None: unchanged
    served: Mapping[str, str] | None = None  # port request -> provider


InterfaceOperation = Run[InterfaceFacts]


def nic_of(run: InterfaceOperation) -> Nic:
    assert run.facts.nic, "plugged before it was learned"
    return run.facts.nic


def names_port(facts: InterfaceFacts) -> bool:
    return facts.requested.port_id is not None


def has_function(facts: InterfaceFacts) -> bool:
    """Check whether the port has a virtual function."""
    return facts.nic is not None and facts.nic.vnic_type == DIRECT


def changes_claim(facts: InterfaceFacts) -> bool:
    return facts.claim is not None
