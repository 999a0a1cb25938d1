"""Fence devices that speak IPMI 2.0 over the network, by the program ipmitool.

The password reaches the program by its environment, which only its own user can read, never by its arguments.
"""

import asyncio
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from whimbrel.adapters.fencing.secrets import read_password
from whimbrel.domain.errors import Refused, Unavailable
from whimbrel.ports.hosts.fencing import Power

PORT = 623
TRIES = 2  # of each message; they are UDP, and may be lost
NOT_ADMITTED = re.compile(r"RAKP 2 HMAC is invalid|unauthorized|invalid role", re.IGNORECASE)
"""What ipmitool -v prints when the device does not admit the user."""
FAILED = re.compile(r"Set Chassis Power Control to .* failed: (.*)")
BUSY = ("Node busy", "Timeout", "Out of space", "Unspecified error")
"""Reasons of a failure after which the same order may succeed."""


class IpmiDevice(msgspec.Struct, frozen=True, kw_only=True):
    """Implements ports.hosts.fencing.FenceDevice. address: a name or an address, with ":PORT" if it is not 623."""

    address: str
    user: str
    password_file: Path
    cipher_suite: int | None = None  # None: the best of both sides
    timeout_s: float = 10.0
    program: str = "ipmitool"

    @property
    def kind(self) -> str:
        return "ipmi"

    async def power_off(self) -> None:
        if await self.power() == "on":  # some devices refuse to turn off what is off
            await self._run("chassis", "power", "off")

    async def power(self) -> Power:
        said = await self._run("chassis", "power", "status")
        found = re.search(r"Chassis Power is (on|off)", said)
        if found is None:
            raise Unavailable(f"the IPMI device at {self.address} says no power state: {said.strip()[:200]}")
        return "off" if found[1] == "off" else "on"

    async def _run(self, *command: str) -> str:
        """Run ipmitool; return what it prints. Raises: Refused, Unavailable."""
        environment = {**os.environ, "IPMI_PASSWORD": read_password(self.password_file)}
        saying = f"the IPMI device at {self.address}"
        try:
            process = await asyncio.create_subprocess_exec(
                self.program, *self._options(), *command, env=environment,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
        except FileNotFoundError:
            raise Refused(f"{self.program} is not installed here: apt-get install ipmitool") from None
        try:
            async with asyncio.timeout(self.timeout_s):
                out, err = (each.decode(errors="replace") for each in await process.communicate())
        except TimeoutError:
            raise Unavailable(f"{saying} does not answer within {self.timeout_s:g} s") from None
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if process.returncode == 0:
            return out
        raise _error(saying, self.user, out + err)

    def _options(self) -> Sequence[str]:
        host, _, port = self.address.rpartition(":") if self.address.count(":") == 1 else (self.address, "", "")
        suite = () if self.cipher_suite is None else ("-C", str(self.cipher_suite))
        limits = ("-N", str(max(1, int(self.timeout_s / (2 * TRIES)))), "-R", str(TRIES))
        return "-v", "-I", "lanplus", "-H", host, "-p", port or str(PORT), "-U", self.user, "-E", *limits, *suite


def _error(saying: str, user: str, text: str) -> Refused | Unavailable:
    if NOT_ADMITTED.search(text):
        return Refused(f"{saying} does not admit user {user}: correct 'user' or 'password_file'")
    said = " ".join(text.split())[:200]
    if (failed := FAILED.search(text)) and not failed[1].startswith(BUSY):
        return Refused(f"{saying} says no: {said}")
    return Unavailable(f"{saying} gives no answer: {said}")
