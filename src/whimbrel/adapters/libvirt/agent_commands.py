"""Requests to QEMU's guest agent, through libvirt. The agent is in the guest: it may be absent, and need not answer."""

from whimbrel.adapters.libvirt.connection import Libvirt, OnLibvirt, find_domain
from whimbrel.domain.errors import NoGuestAgent, NotFound, Refused
from whimbrel.domain.guest import GuestKey

UNANSWERED = ("VIR_ERR_AGENT_UNRESPONSIVE", "VIR_ERR_AGENT_UNSYNCED", "VIR_ERR_AGENT_COMMAND_TIMEOUT")
"""libvirt's errors if no agent answers."""
ABSENT = "VIR_ERR_ARGUMENT_UNSUPPORTED"
"""libvirt's error if the guest has no channel to an agent."""


class AgentCommands(OnLibvirt):
    async def set_password(self, key: GuestKey, user: str, password: str) -> None:
        """Raises: NotFound; NoGuestAgent; Refused: the agent does not know the user, or the guest does not run."""
        await self.connection.run(lambda libvirtd: self._set_password(libvirtd, key, user, password))

    def _set_password(self, libvirtd: Libvirt, key: GuestKey, user: str, password: str) -> None:
        domain = find_domain(self.libvirt, libvirtd, key.server)
        if domain is None:
            raise NotFound(f"no guest {key.slot} of server {key.server} is defined here")
        if not domain.isActive():
            raise Refused(f"guest {key.slot} of server {key.server} does not run")
        try:
            domain.setUserPassword(user, password, 0)
        except self.libvirt.libvirtError as error:
            code = error.get_error_code()
            if code in [getattr(self.libvirt, name, None) for name in (*UNANSWERED, ABSENT)]:
                raise NoGuestAgent(f"the guest's agent does not answer: {error.get_error_message()}") from None
            # The message is libvirt's, and does not have the password.
            raise Refused(f"the guest's agent refuses: {error.get_error_message()}") from None
