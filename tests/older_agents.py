"""Agents of an older release, which do not know all orders."""

from whimbrel.domain.host_description import HostDescription
from whimbrel.domain.host_nics import HostNet
from whimbrel.domain.ids import HostName
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.hosts import AgentInfo


async def make_agent_old(cloud: Cloud, record: Server, *verbs: str) -> None:
    """Register an agent of release 0.1.9 on the server's host. verbs: those that it knows."""
    assert record.cell
    hosts = cloud.cell(record.cell).hosts
    host = await hosts.get(HostName(record.host or ""))
    described = HostDescription(
        name=host.name, zone="z", driver=host.driver, vcpus=host.vcpus, memory_mib=host.memory_mib,
        disk_gib=host.disk_gib, net=HostNet(host=host.name),
    )  # fmt: skip
    await hosts.begin_session(host, AgentInfo(release="0.1.9", verbs=dict.fromkeys(verbs, ())), described)
