"""Runs the programs that change the networks of this machine: ip, tc, nft, and others inside a network namespace."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from whimbrel.domain.errors import Refused, Unavailable

NAMESPACES = Path("/run/netns")
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
PACKAGES = {
    "ip": "iproute2",
    "tc": "iproute2",
    "bridge": "iproute2",
    "nft": "nftables",
    "dnsmasq": "dnsmasq-base",
    "nsenter": "util-linux",
    "sysctl": "procps",
}
SHOWN = 500  # characters of an error


async def run(*words: str, given: str = "") -> str:
    """Return the output of a program. given: its input. Raises: Refused: it is missing; Unavailable: it failed."""
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=ENVIRONMENT,
        )
    except FileNotFoundError:
        raise Refused(f"there is no program {words[0]}: install {PACKAGES.get(words[0], words[0])}") from None
    output, errors = await process.communicate(given.encode())
    if process.returncode:
        reason = errors.decode(errors="replace").strip()[:SHOWN] or f"it ended with {process.returncode}"
        raise Unavailable(f"{' '.join(words)}: {reason}")
    return output.decode(errors="replace")


async def run_inside(namespace: str, *words: str, given: str = "") -> str:
    """Run a program in a network namespace."""
    return await run("nsenter", f"--net={NAMESPACES / namespace}", *words, given=given)


async def ip(*words: str, namespace: str | None = None) -> str:
    return await run("ip", *(("-n", namespace) if namespace else ()), *words)


async def show(*words: str, namespace: str | None = None) -> list[dict[str, Any]]:
    """Return the output of `ip -j -d` about links, addresses or routes."""
    output = await run("ip", *(("-n", namespace) if namespace else ()), "-j", "-d", *words)
    found: list[dict[str, Any]] = msgspec.json.decode(output or "[]")
    return [each for each in found if each]


async def links(namespace: str | None = None) -> dict[str, dict[str, Any]]:
    """Return the devices of a namespace by name. None: that of this process."""
    return {each["ifname"]: each for each in await show("link", "show", namespace=namespace)}


async def ensure_addresses(device: str, wanted: Sequence[str], namespace: str) -> None:
    """Ensure that a device has exactly these addresses, each with its prefix length."""
    [found] = await show("addr", "show", "dev", device, namespace=namespace)
    here = {f"{each['local']}/{each['prefixlen']}" for each in found["addr_info"]}
    for address in sorted(here.difference(wanted)):
        await ip("addr", "del", address, "dev", device, namespace=namespace)
    for address in wanted:
        if address not in here:
            # No duplicate address detection: the address is on each host on purpose, or is unique.
            options = ("nodad",) if ":" in address else ()
            await ip("addr", "add", address, "dev", device, *options, namespace=namespace)


async def disable_ipv6(device: str) -> None:
    """Disable IPv6 addresses of a new device in this process's namespace, so that the device sends nothing itself."""
    with suppress(Unavailable):  # one with a small MTU has no IPv6 at all
        await ip("link", "set", device, "addrgenmode", "none")


async def namespaces() -> list[str]:
    """Return the names of all network namespaces."""
    return await asyncio.to_thread(lambda: sorted(os.listdir(NAMESPACES)) if NAMESPACES.is_dir() else [])


async def make_namespace(name: str) -> None:
    """Ensure that a network namespace exists, which forwards nothing."""
    if name not in await namespaces():
        await ip("netns", "add", name)
    await ip("link", "set", "lo", "up", namespace=name)
