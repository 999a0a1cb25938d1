"""Fence devices that speak Redfish, by the library sushy, which is optional: it is imported when it is used.

Each call is a connection of its own: a management controller has few sessions, and forgets them as it likes.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from whimbrel.adapters.fencing.secrets import read_password
from whimbrel.domain.errors import Refused, Unavailable
from whimbrel.ports.hosts.fencing import Power

T = TypeVar("T")

ONE_TRY = 1  # the caller repeats


class RedfishDevice(msgspec.Struct, frozen=True, kw_only=True):
    """Implements ports.hosts.fencing.FenceDevice.

    address: URL of the service. system: path of the machine there; None: its only one. ca_file: of its certificate;
    None: those of the system. insecure: whatever its certificate is.
    """

    address: str
    user: str
    password_file: Path
    system: str | None = None
    ca_file: Path | None = None
    insecure: bool = False
    timeout_s: float = 10.0

    @property
    def kind(self) -> str:
        return "redfish"

    async def power_off(self) -> None:
        await asyncio.to_thread(self._with_system, _power_off)

    async def power(self) -> Power:
        return await asyncio.to_thread(self._with_system, _power)

    def _with_system(self, act: Callable[[Any], T]) -> T:
        """Connect, and act on the machine. Raises: Refused, Unavailable."""
        try:
            import sushy
            from sushy.auth import BasicAuth
        except ImportError:
            raise Refused("the library sushy is not installed: pip install 'whimbrel[fencing]'") from None
        password = read_password(self.password_file)
        verify: bool | str = str(self.ca_file) if self.ca_file else not self.insecure
        saying = f"the Redfish service at {self.address}"
        try:
            root = sushy.Sushy(
                self.address,
                auth=BasicAuth(self.user, password),
                verify=verify,
                server_side_retries=ONE_TRY,
                read_timeout=self.timeout_s,
                connect_timeout=self.timeout_s,
            )
            return act(root.get_system(self.system))
        except sushy.exceptions.AccessError:
            raise Refused(f"{saying} does not admit user {self.user}: correct 'user' or 'password_file'") from None
        except sushy.exceptions.UnknownDefaultError:
            raise Refused(f"{saying} has not exactly one machine: name one with 'system'") from None
        except sushy.exceptions.ServerSideError as error:
            raise Unavailable(f"{saying}: {error}") from error
        except sushy.exceptions.HTTPError as error:
            raise Refused(f"{saying}: {error}") from error
        except sushy.exceptions.InvalidParameterValueError as error:
            raise Refused(f"{saying} cannot cut the power: {error}") from error
        except (sushy.exceptions.SushyError, OSError, ValueError, KeyError) as error:  # of the network, or no Redfish
            raise Unavailable(f"{saying} gives no answer: {error}") from error


def _power_off(system: Any) -> None:
    import sushy

    if _power(system) == "on":  # some services refuse to turn off what is off
        system.reset_system(sushy.RESET_TYPE_FORCE_OFF)


def _power(system: Any) -> Power:
    import sushy

    return "off" if system.power_state == sushy.POWER_STATE_OFF else "on"
