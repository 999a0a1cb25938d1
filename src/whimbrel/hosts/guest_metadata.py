"""Answers guests that ask the metadata service about themselves.

Invariants: a host gets answers only about servers that are on it, or that an open run brings there. A guest that asks
too often is refused before anything is read for it.
"""

from datetime import UTC, datetime

from whimbrel.domain.errors import Conflict, NotFound, Refused
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.domain.run import has_facts
from whimbrel.domain.server import Server
from whimbrel.domain.token_buckets import TokenBuckets
from whimbrel.guest_data import metadata_paths
from whimbrel.guest_data.reading import describe
from whimbrel.moves.facts import MoveFacts
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.hosts.control_plane import MetadataAnswer
from whimbrel.servers import edit, lookup

MAX_PASSWORD_BYTES = 1020
"""The longest password that a guest may post: Nova's four fields of 255 bytes."""

NOTHING_THERE = MetadataAnswer(status=404, body=b"404 Not Found")


class GuestMetadata:
    """Answers for the guests of all hosts."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._requests = TokenBuckets(cloud.rules.guests.metadata_requests_per_s, cloud.rules.guests.metadata_burst)

    async def of_guest(
        self, host: HostName, server_id: ServerId, path: str, method: str = "GET", body: bytes = b""
    ) -> MetadataAnswer:
        """Answer a guest of a host. Raises: Refused: the server is not there; Unavailable."""
        if refusal := self.too_many(server_id):
            return refusal
        try:
            server = await lookup.find(self._cloud, server_id)
        except NotFound as missing:
            raise Refused(missing.reason) from None
        if not await self._is_on(host, server):
            raise Refused(f"server {server_id} is not on host {host}")
        return await self.answer(server, path, method, body)

    def too_many(self, server_id: ServerId) -> MetadataAnswer | None:
        """Count a request of a guest; return its refusal if there were too many of late."""
        if not self._cloud.rules.guests.metadata_requests_per_s:
            return None
        wait_s = self._requests.take(server_id, self._cloud.clock.now())
        if not wait_s:
            return None
        return MetadataAnswer(status=429, body=b"429 Too Many Requests", retry_after_s=wait_s)

    async def answer(self, server: Server, path: str, method: str = "GET", body: bytes = b"") -> MetadataAnswer:
        """Answer a request about a server. Raises: Unavailable."""
        if metadata_paths.is_password(path):
            return await self._password(server, method, body)
        guest = await describe(
            self._cloud,
            server,
            with_networks=metadata_paths.needs_networks(path),
            with_vendor_data=metadata_paths.needs_dynamic_vendor_data(path),
        )
        today = datetime.fromtimestamp(self._cloud.clock.now(), UTC).date().isoformat()
        return metadata_paths.look_up(guest, path, today) or NOTHING_THERE

    async def _is_on(self, host: HostName, server: Server) -> bool:
        if server.host == host:
            return True
        run = await self._cloud.journal.open_run(server.id)
        if run is None or not has_facts(run, MoveFacts) or run.facts.target is None:
            return False
        return run.facts.target.host == host

    async def _password(self, server: Server, method: str, body: bytes) -> MetadataAnswer:
        """Return the password that the guest has posted, or keep the one that it posts: once."""
        if method == "GET":
            return MetadataAnswer(status=200, body=server.guest_password.encode())
        if method != "POST":
            return _refusal(400, "GET and POST only are supported.")
        if server.guest_password:
            return _refusal(409, "There was a conflict when trying to complete your request.")
        if len(body) > MAX_PASSWORD_BYTES:
            return _refusal(400, "Request is too large.")
        try:
            text = body.decode()
        except UnicodeDecodeError:
            return _refusal(400, "The password is no text in UTF-8.")
        if "\0" in text:
            return _refusal(400, "A NUL character is not allowed.")
        try:
            await edit.change(self._cloud, server, {"guest_password": text})
        except Conflict:
            return _refusal(409, "The server is being changed: post the password again.")
        return MetadataAnswer(status=200)


def _refusal(status: int, reason: str) -> MetadataAnswer:
    return MetadataAnswer(status=status, body=reason.encode())
