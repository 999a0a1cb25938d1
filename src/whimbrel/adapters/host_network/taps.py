"""The tap devices of ports, and how each is joined to its network's namespace.

QEMU opens a tap in the host's own namespace. What the guest sends is redirected (tc, mirred) to a virtual Ethernet
device, whose other end is a port of the network's bridge, and back.
Invariant: a tap that is not joined reaches nothing. The alias of a tap says that it is ours, and to which device it is
joined, so a killed agent leaves nothing that looks complete and is not.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from whimbrel.adapters.host_network import names
from whimbrel.adapters.host_network.commands import disable_ipv6, ip, links, run
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.server_devices import tap_name

Links = Mapping[str, Mapping[str, Any]]


async def _tap(port_id: str, mtu: int, here: Links) -> None:
    tap = tap_name(port_id)
    if tap not in here:
        await ip("tuntap", "add", tap, "mode", "tap", "vnet_hdr")
        await disable_ipv6(tap)
    if not _is_ours(here.get(tap, {})):
        await ip("link", "set", tap, "alias", names.ALIAS)
    if here.get(tap, {}).get("mtu") != mtu or "UP" not in here[tap]["flags"]:
        await ip("link", "set", tap, "mtu", str(mtu), "up")


async def join(port_id: str, namespace: str, bridge: str, mtu: int, here: Links, there: Links) -> None:
    """Ensure that a port has a tap, which is joined to a bridge. here, there: the devices of both namespaces."""
    tap, outer, inner = tap_name(port_id), names.outer(port_id), names.inner(port_id)
    await _tap(port_id, mtu, here)
    is_whole = outer in here and inner in there
    if not is_whole:
        for name, of in ((outer, here), (inner, there)):
            if name in of:
                await ip("link", "del", name, namespace=None if of is here else namespace)
        await ip("link", "add", outer, "mtu", str(mtu), "type", "veth", "peer", "name", inner, "netns", namespace)
    found = (await links())[outer] if not is_whole else here[outer]
    joined = f"{names.ALIAS} {found['ifindex']}"
    if here.get(tap, {}).get("ifalias") != joined:
        await disable_ipv6(outer)
        await ip("link", "set", outer, "mtu", str(mtu), "up")
        await _redirect(tap, outer)
        await _redirect(outer, tap)
        await ip("link", "set", tap, "alias", joined)
    end = there.get(inner, {}) if is_whole else {}
    if end.get("master") != bridge or end.get("mtu") != mtu or "UP" not in end.get("flags", ()):
        await ip("link", "set", outer, "mtu", str(mtu))
        await ip("link", "set", inner, "mtu", str(mtu), "master", bridge, "up", namespace=namespace)


async def _redirect(source: str, target: str) -> None:
    with suppress(Unavailable):  # there is none yet
        await run("tc", "qdisc", "del", "dev", source, "clsact")
    await run("tc", "qdisc", "add", "dev", source, "clsact")
    every = ("protocol", "all", "u32", "match", "u32", "0", "0")
    redirected = ("action", "mirred", "egress", "redirect", "dev", target)
    await run("tc", "filter", "add", "dev", source, "ingress", "prio", "1", *every, *redirected)


async def remove_others(port_ids: Collection[str]) -> None:
    """Remove our taps of all other ports, but none that a guest has open."""
    taps = {tap_name(each) for each in port_ids}
    for name, device in (await links()).items():
        if _is_ours(device) and "LOWER_UP" not in device["flags"] and name not in taps:
            await ip("link", "del", name)


def _is_ours(device: Mapping[str, Any]) -> bool:
    return str(device.get("ifalias", "")).split(" ")[0] == names.ALIAS
