"""A connection to libvirtd that reconnects by itself, and the table that maps libvirt's errors to Whimbrel's.

Invariant: every call is preceded by a check that the connection is alive. After libvirtd has started, no call is made
until it has reattached to its guests: it answers earlier, but an order given then can kill a guest. For a guest to
which it cannot reattach, calls wait for at most ATTACHED_WITHIN_S.
"""

import asyncio
import importlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from whimbrel.domain.errors import NotFound, Refused, Unavailable, WorldError
from whimbrel.domain.guest import NAME_PREFIX
from whimbrel.domain.ids import ServerId

T = TypeVar("T")

Libvirt = Any
"""The Python binding is untyped: a module, a connection, a domain."""

CALL_TIMEOUT_S = 90.0
ATTACHED_WITHIN_S = 30.0
POLL_S = 0.05
THREADS = 4

# By name, because the binding is imported late. Any other error is Unavailable: the order may have been executed.
ERRORS: dict[str, type[WorldError]] = {
    "VIR_ERR_NO_DOMAIN": NotFound,
    "VIR_ERR_NO_SUPPORT": Refused,
    "VIR_ERR_NO_DOMAIN_METADATA": NotFound,
    "VIR_ERR_INVALID_ARG": Refused,
    "VIR_ERR_OPERATION_DENIED": Refused,
    "VIR_ERR_OPERATION_UNSUPPORTED": Refused,
    "VIR_ERR_XML_ERROR": Refused,
    "VIR_ERR_XML_DETAIL": Refused,
    "VIR_ERR_XML_INVALID_SCHEMA": Refused,
    "VIR_ERR_CONFIG_UNSUPPORTED": Refused,
    "VIR_ERR_ARGUMENT_UNSUPPORTED": Refused,
    "VIR_ERR_DOM_EXIST": Refused,
    "VIR_ERR_ACCESS_DENIED": Refused,
    "VIR_ERR_AUTH_FAILED": Refused,
    "VIR_ERR_AUTH_CANCELLED": Refused,
    "VIR_ERR_AUTH_UNAVAILABLE": Refused,
}


def load_libvirt() -> Libvirt:
    """Import the binding and silence its error output. Raises: Refused: it is not installed."""
    try:
        libvirt = importlib.import_module("libvirt")
    except ImportError as error:
        raise Refused(
            "driver libvirt needs the package libvirt-python: apt-get install libvirt-dev pkg-config gcc "
            "&& pip install 'whimbrel[libvirt]'"
        ) from error
    libvirt.registerErrorHandler(lambda _context, _error: None, None)  # by default it writes every error to stderr too
    return libvirt


class Connection:
    """One libvirtd, by its URI."""

    def __init__(self, uri: str) -> None:
        self.libvirt = load_libvirt()
        self._uri = uri
        self._opened: Libvirt = None
        self._opening = threading.Lock()
        self._threads = ThreadPoolExecutor(THREADS, f"libvirt {uri}")  # several: one that hangs does not block others

    async def run(self, work: Callable[[Libvirt], T]) -> T:
        """Call `work` with a live connection, in a thread, because the binding blocks. Raises: see ERRORS."""
        try:
            call = asyncio.get_running_loop().run_in_executor(self._threads, self._run, work)
            return await asyncio.wait_for(call, CALL_TIMEOUT_S)
        except TimeoutError as error:
            self._opened = None  # its thread keeps waiting; later calls reconnect
            raise Unavailable(f"libvirt at {self._uri} gave no answer in {CALL_TIMEOUT_S:.0f} s") from error

    def _run(self, work: Callable[[Libvirt], T]) -> T:
        try:
            return work(self._alive())
        except self.libvirt.libvirtError as error:
            raise self._named(error) from error

    def _alive(self) -> Libvirt:
        with self._opening:
            if self._opened is None or not self._answers(self._opened):
                self._opened = None
                opened = self.libvirt.open(self._uri)
                self._await_attached(opened)
                self._opened = opened
            return self._opened

    def _answers(self, connection: Libvirt) -> bool:
        try:
            return bool(connection.getLibVersion())
        except self.libvirt.libvirtError:
            return False

    def _await_attached(self, connection: Libvirt) -> None:
        """Wait until libvirtd has reattached to all of this cloud's running guests, or until the time is up."""
        deadline = time.monotonic() + ATTACHED_WITHIN_S
        for domain in connection.listAllDomains(self.libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE):
            ours = domain.name().startswith(NAME_PREFIX)
            while ours and time.monotonic() < deadline and not self._is_attached(domain):
                time.sleep(POLL_S)

    def _is_attached(self, domain: Libvirt) -> bool:
        try:
            if not domain.isPersistent():  # it is arriving by a live transfer: libvirtd would not answer until it has
                return True
            domain.blockStats("")  # of all disks; answered by the guest's QEMU, not from libvirtd's memory
            return True
        except self.libvirt.libvirtError:
            pass
        try:
            return not domain.isActive()
        except self.libvirt.libvirtError:  # the domain is gone
            return True

    def _named(self, error: Any) -> WorldError:
        code = error.get_error_code()
        kinds = (kind for name, kind in ERRORS.items() if getattr(self.libvirt, name, None) == code)
        return next(kinds, Unavailable)(f"libvirt: {error.get_error_message() or error}")


def find_domain(libvirt: Libvirt, connection: Libvirt, server: ServerId) -> Libvirt | None:
    """Return libvirt's domain of a server, for operations."""
    try:
        return connection.lookupByUUIDString(server)
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        raise


@dataclass(frozen=True)
class OnLibvirt:
    """A part of a host that works on the domains of one libvirtd."""

    connection: Connection

    @property
    def libvirt(self) -> Libvirt:
        """Return the binding."""
        return self.connection.libvirt

    def existing(self, libvirtd: Libvirt, server: ServerId) -> Libvirt:
        """Return the domain of a server that had one. Raises: Unavailable: it is gone."""
        domain = find_domain(self.libvirt, libvirtd, server)
        if domain is None:
            raise Unavailable(f"the guest of server {server} went meanwhile")
        return domain
