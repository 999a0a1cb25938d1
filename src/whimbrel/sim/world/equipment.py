"""Networks, bandwidth and volumes of a simulated cloud, for servers with devices."""

from msgspec.structs import replace

from whimbrel.adapters.sql.placement import SqlPlacement
from whimbrel.domain.host import Host
from whimbrel.domain.ids import HostName, ProjectId, ProviderId
from whimbrel.domain.pci import PciAlias, PciDevice
from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import RequestedNic, RequestedVolume
from whimbrel.ports.clock import IdSource
from whimbrel.ports.cloud import Cell
from whimbrel.ports.placement.placement import Inventory
from whimbrel.ports.services.network import NetworkInfo, Port, PortRequest
from whimbrel.ports.services.volumes import Volume
from whimbrel.sim.world.network import SimulatedNetwork
from whimbrel.sim.world.volumes import SimulatedVolumes

EGRESS, INGRESS = "NET_BW_EGR_KILOBIT_PER_SEC", "NET_BW_IGR_KILOBIT_PER_SEC"
PHYSNET, NORMAL, DIRECT = "CUSTOM_PHYSNET_PHYSNET0", "CUSTOM_VNIC_TYPE_NORMAL", "CUSTOM_VNIC_TYPE_DIRECT"

NETWORK = "44444444-4444-4444-8444-444444444444"
SUBNET = "55555555-5555-4555-8555-555555555555"
PORT = "66666666-6666-4666-8666-666666666666"
"""A port that requests bandwidth."""

DIRECT_PORT = "66666666-6666-4666-8666-666666666667"
"""A port of vnic type direct that requests bandwidth."""

DIRECT_REQUEST = "88888888-8888-4888-8888-888888888889"
FUNCTIONS = tuple(
    PciDevice(address=f"0000:81:00.{n}", vendor_id="8086", product_id="154c", physnet="physnet0", parent_ifname=parent)
    for n, parent in enumerate(("eth1", "eth2", "eth2"))
)
"""The virtual functions of each host; eth1 has too little bandwidth for any port."""

GPU = PciAlias(name="gpu", vendor_id="10de", product_id="1eb8")
GPUS = tuple(PciDevice(address=f"0000:41:00.{n}", vendor_id=GPU.vendor_id, product_id=GPU.product_id) for n in range(3))
"""Devices of each host; flavors request them by this alias."""

VOLUME = "77777777-7777-4777-8777-777777777777"
REQUEST = "88888888-8888-4888-8888-888888888888"
KBPS = 1000


def host_nic_of(host: HostName) -> str:
    """Return the name of the provider of a host's NIC, as Neutron's agent names it."""
    return f"{host}:Open vSwitch agent:eth0"


async def add_host_nic(placement: SqlPlacement, host: HostName, root: ProviderId, uuid: ProviderId) -> None:
    """Report a NIC of the host with bandwidth for four ports."""
    await placement.create_provider(uuid, host_nic_of(host), root)
    room = Inventory(total=4 * KBPS)
    await placement.set_inventories(uuid, None, {EGRESS: room, INGRESS: room})
    for trait in (PHYSNET, NORMAL):
        await placement.create_trait(trait)
    await placement.set_traits(uuid, None, [PHYSNET, NORMAL])


async def add_functions(cell: Cell, placement: SqlPlacement, host: Host, ids: IdSource) -> None:
    """Report two NICs of the host with virtual functions; only the second has enough bandwidth."""
    for name, kbps in (("eth1", KBPS // 2), ("eth2", 4 * KBPS)):
        uuid = ProviderId(ids.uuid())
        await placement.create_provider(uuid, f"{host.name}:NIC Switch agent:{name}", host.id)
        await placement.set_inventories(uuid, None, {EGRESS: Inventory(total=kbps)})
        await placement.create_trait(DIRECT)
        await placement.set_traits(uuid, None, [PHYSNET, DIRECT])
    await cell.devices.register(host.name, FUNCTIONS)


def add_direct_port(network: SimulatedNetwork, project: ProjectId) -> None:
    request = PortRequest(id=DIRECT_REQUEST, resources={EGRESS: KBPS}, required=(PHYSNET, DIRECT))
    port = Port(id=DIRECT_PORT, network_id=NETWORK, project_id=project, mac="fa:16:3e:00:00:02", vnic_type="direct")
    network.add_port(port, requests=[request], same_subtree=[DIRECT_REQUEST])


def add_services(network: SimulatedNetwork, volumes: SimulatedVolumes, project: ProjectId) -> None:
    """Add a network, a port on it that requests bandwidth, and a volume."""
    network.add_network(
        NetworkInfo(
            id=NETWORK,
            name="private",
            project_id=project,
            is_shared=False,
            subnets=(SUBNET,),
            physnets=("physnet0",),
        ),
        "10.0.0.0/24",
    )
    request = PortRequest(id=REQUEST, resources={EGRESS: KBPS, INGRESS: KBPS}, required=(PHYSNET, NORMAL))
    port = Port(id=PORT, network_id=NETWORK, project_id=project, mac="fa:16:3e:00:00:01")
    network.add_port(port, requests=[request], same_subtree=[REQUEST])
    volume = Volume(
        id=VOLUME, project_id=project, name="data", status="available", size_gib=1, zone="nova", backend="lvm"
    )
    volumes.add_volume(volume)


def with_devices(server: Server) -> Server:
    """Return a new server's record that requests two ports and two volumes: of each, an existing one and a new one."""
    return replace(
        server,
        requested_nics=(RequestedNic(port_id=PORT, network_id=NETWORK), RequestedNic(network_id=NETWORK)),
        requested_volumes=(
            RequestedVolume(volume_id=VOLUME),
            RequestedVolume(is_blank=True, size_gib=1, delete_on_termination=True),
        ),
    )


def with_a_function(server: Server) -> Server:
    """Return a new server's record that requests a virtual function."""
    return replace(server, requested_nics=(RequestedNic(port_id=DIRECT_PORT, network_id=NETWORK),))


def with_a_boot_volume(server: Server) -> Server:
    """Return a new server's record with the volume as its root disk, and its other requests unchanged."""
    others = tuple(requested for requested in server.requested_volumes if requested.volume_id != VOLUME)
    root = RequestedVolume(volume_id=VOLUME, boot_index=0)
    return replace(server, image_id=None, requested_volumes=(root, *others))
