"""Hosts, and what a host gets that joins."""

import msgspec


class HostNicState(msgspec.Struct, kw_only=True):
    """A network device that was found on a host. null: not known. pci_address: of its device."""

    name: str
    mac: str | None
    speed_mbps: int | None
    mtu: int | None
    state: str | None
    pci_address: str | None


class HostPciState(msgspec.Struct, kw_only=True):
    """A PCI device that was found on a host. null: it has none.

    physical_function: of a virtual function, the address of its physical one. virtual_functions: of a physical
    function, how many it can have.
    """

    address: str
    vendor_id: str
    product_id: str
    numa_node: int | None
    physical_function: str | None
    virtual_functions: int
    iommu_group: int | None
    driver: str | None


class HostHardware(msgspec.Struct, kw_only=True):
    """What an agent found on its host. null: that cannot be listed there.

    mismatches: a sentence about each NIC and device of the host's settings that is not as it was found.
    """

    nics: list[HostNicState] | None
    pci: list[HostPciState] | None
    mismatches: list[str] = []


class HostState(msgspec.Struct, kw_only=True):
    """One host. state: "up", "down", or "joined": its agent has a key and has not registered it yet.

    self_fence_s: it stops its guests when it was cut off for so long; null: it does not. self_fence_counted_s: how long
    after `seen_at` the cloud counts on that. guest_nics, hardware: how guests are connected and what was found on the
    host (null: not reported), where one host is shown.
    release: of its agent; "": the agent is in the process of the cloud. session: of its agent, one more at each start.
    """

    name: str
    cell: str
    state: str
    enabled: bool = False
    disabled_reason: str | None = None
    forced_down: bool = False
    forced_down_by: str | None = None
    forced_down_reason: str | None = None
    forced_down_at: float | None = None
    zone: str | None = None
    session: int = 0
    release: str = ""
    seen_at: float = 0.0
    joined_at: float | None = None
    driver: str = ""
    vcpus: int = 0
    memory_mib: int = 0
    disk_gib: int = 0
    servers: int = 0
    self_fence_s: float | None = None
    self_fence_counted_s: float | None = None
    guest_nics: str = ""
    hardware: HostHardware | None = None


class HostStates(msgspec.Struct):
    """unreachable: the cells that do not answer, whose hosts are missing."""

    hosts: list[HostState]
    unreachable: list[str] = []


class HostStateAnswer(msgspec.Struct):
    host: HostState


class HostEvidence(msgspec.Struct, kw_only=True):
    """Why it is certain that nothing runs on a host. kind: "self_fenced", "power_off" or "administrator".

    at: seconds since 1970. origin: the user or the program that reported it. detail: the sentence that came with it.
    """

    kind: str
    at: float
    origin: str
    detail: str = ""


class ForgottenHost(msgspec.Struct, kw_only=True):
    """A host that was removed. evidence: null: it had joined, and never registered."""

    host: str
    evidence: HostEvidence | None


class ForgottenHostAnswer(msgspec.Struct):
    forgotten: ForgottenHost


class HostInvitation(msgspec.Struct, kw_only=True):
    """token: for `whimbrel agent join`; it is shown once, and counts once."""

    host: str
    cell: str
    expires_at: float
    token: str


class HostInvitationAnswer(msgspec.Struct):
    invitation: HostInvitation


class HostJoin(msgspec.Struct, kw_only=True):
    """What the agent of a host needs. bus_ca: PEM; "": the system trusts the bus. jwt: admits the host's key there."""

    host: str
    cell: str
    bus_urls: list[str]
    bus_ca: str
    jwt: str


class HostJoinAnswer(msgspec.Struct):
    join: HostJoin


class Trust(msgspec.Struct, kw_only=True):
    """The certificates that this API is trusted by, PEM; "": the system trusts it."""

    ca: str
