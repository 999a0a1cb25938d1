"""Checks whether this machine can make networks: its rights, its programs, and what its kernel has.

It makes what the networks of servers need in a namespace of its own, and removes it.
"""

import os
import shutil

from whimbrel.adapters.host_network.commands import ENVIRONMENT, PACKAGES, ip, make_namespace, namespaces, run_inside
from whimbrel.adapters.host_network.packet_rules import ruleset
from whimbrel.domain.errors import Refused, Unavailable
from whimbrel.domain.host_networks import HostNetwork, HostPort, HostRule

CHECK_PREFIX = "wcheck-"
PORT = HostPort(id="0" * 8, mac="fa:16:3e:00:00:01", server="", addresses=("192.0.2.5",), groups=("g",))
SAMPLE = HostNetwork(id="check", mtu=1500, dhcp_mac="fa:16:3e:00:00:02", ports=(PORT,))
RULES = {"g": (HostRule(direction="ingress", version=4, protocol="tcp", first=22, last=22, group="g"),)}


async def check_kernel() -> None:
    """Raises: Refused: what is missing, and what to do."""
    if missing := [name for name in PACKAGES if not shutil.which(name, path=ENVIRONMENT["PATH"])]:
        packages = " ".join(dict.fromkeys(PACKAGES[name] for name in missing))
        raise Refused(f"{_WHY}: no program {', '.join(missing)}: apt-get install {packages}")
    for left in await namespaces():
        if left.startswith(CHECK_PREFIX):  # by an agent that was killed
            await ip("netns", "del", left)
    namespace = f"{CHECK_PREFIX}{os.getpid()}"
    try:
        await make_namespace(namespace)
    except Unavailable as error:
        raise Refused(f"{_WHY}: it may not make network namespaces (it needs to be root): {error.reason}") from None
    try:
        await _check_inside(namespace)
    finally:
        await ip("netns", "del", namespace)


async def _check_inside(namespace: str) -> None:
    for words, module in (
        (("ip", "link", "add", "check", "type", "bridge"), "bridge"),
        (("sysctl", "-q", "-w", "net.bridge.bridge-nf-call-iptables=1"), "br_netfilter"),
    ):
        try:
            await run_inside(namespace, *words)
        except Unavailable as error:
            raise Refused(f"{_WHY}: modprobe {module} ({error.reason})") from None
    try:
        await run_inside(namespace, "nft", "-f", "-", given=ruleset(SAMPLE, RULES, {"g": ("192.0.2.0/24",)}))
    except Unavailable as error:
        raise Refused(f"{_WHY}: its kernel lacks a part of nftables (nft_ct, nf_tables): {error.reason}") from None


_WHY = "guest_nics = 'bridge', and this machine cannot make networks"
