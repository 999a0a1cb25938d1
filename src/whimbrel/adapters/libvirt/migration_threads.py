"""The thread that calls libvirt for a live transfer, because the call takes as long as the transfer.

Invariant: if the process ends, libvirt continues, and the next process reads the result. The thread records what it
learns in the slot's departure.
"""

import contextlib
import logging
import threading
from collections.abc import Iterator

from msgspec.structs import replace

from whimbrel.adapters.libvirt import arrival
from whimbrel.adapters.libvirt.connection import Libvirt, find_domain
from whimbrel.adapters.libvirt.departure import Departure
from whimbrel.adapters.libvirt.domain_xml import POST_COPY, is_paused_for
from whimbrel.adapters.libvirt.migration_jobs import counted, is_copying, remove_leftovers
from whimbrel.adapters.libvirt.migration_settings import flags_of, parameters_of
from whimbrel.adapters.libvirt.slots import SlotDirectory
from whimbrel.domain.live_transfer import TransferOptions, TransferTarget

logger = logging.getLogger(__name__)

ENDED = "the transfer was ended"
HAS_LEFTOVERS = "Duplicate nodes with node-name='migration-"
"""In QEMU's message, if libvirt was killed in an earlier transfer."""

LACKS_POST_COPY = "ostcopy is not supported"
"""In QEMU's message, if the kernel or its settings lack what post-copy needs."""


class Carrier:
    """A transfer of this process. live: the guest's definition as the target shall receive it."""

    def __init__(
        self,
        libvirt: Libvirt,
        uri: str,
        slot: SlotDirectory,
        target: TransferTarget,
        *,
        live: str,
        disks: list[str],
        tls: bool,
        suspends: bool,
    ) -> None:
        self._libvirt = libvirt
        self._uri = uri
        self._slot = slot
        self._target = target
        self._live = live
        self._disks = disks
        self._tls = tls
        self._suspends = suspends
        self._thread = threading.Thread(target=self._carry, name=f"transfer of {slot.key.server}", daemon=True)
        self._is_cleared = False
        self.ends = False  # set by the call that ends the transfer
        self.trouble = ""

    def start(self) -> None:
        self._thread.start()

    @property
    def is_at_work(self) -> bool:
        return self._thread.is_alive()

    def _carry(self) -> None:
        departure = self._slot.read_departure()
        assert departure, "it was written before"
        try:
            with self._opened(self._uri) as here:
                domain = find_domain(self._libvirt, here, self._slot.key.server)
                try:
                    with self._opened(departure.uri) as there:
                        self._transfer(domain, there, departure)
                except (self._libvirt.libvirtError, OSError) as error:
                    self.trouble = ENDED if self.ends else f"libvirt: {error}"
                    self._give_up(domain, departure)
        except (self._libvirt.libvirtError, OSError) as error:  # where the guest is, is found out later
            self.trouble = self.trouble or f"libvirt: {error}"

    @contextlib.contextmanager
    def _opened(self, uri: str) -> Iterator[Libvirt]:
        connection = self._libvirt.open(uri)
        try:
            yield connection
        finally:
            with contextlib.suppress(self._libvirt.libvirtError):
                connection.close()

    def _transfer(self, domain: Libvirt, there: Libvirt, departure: Departure) -> None:
        is_running = departure.power_before == "running"
        if self._suspends and is_running:
            logger.warning(
                "guest %s is suspended during its live transfer: it is emulated, and this version of QEMU could lose"
                " what it writes (tcg_live_migration)",
                self._slot.key.server,
            )
            domain.suspend()
            is_running = False
        if departure.options.post_copy and not is_running:  # libvirt refuses it for a paused guest
            self._slot.update_departure(_without_post_copy)
        domain.migrateSetMaxDowntime(departure.options.max_pause_ms)
        self._migrate(domain, departure.options, departure.options.post_copy and is_running)
        job = domain.jobStats(self._libvirt.VIR_DOMAIN_JOB_STATS_COMPLETED)
        self._slot.update_departure(lambda d: replace(d, state="left", last=counted("arrived", job)))
        arrival.wake(self._libvirt, there, departure.key)
        self._slot.update_departure(lambda d: replace(d, state="arrived"))

    def _migrate(self, domain: Libvirt, options: TransferOptions, post_copy: bool) -> None:
        if self.ends:
            raise self._libvirt.libvirtError(ENDED)
        flags = flags_of(self._libvirt, options, self._disks, self._tls, post_copy)
        to = self._target
        parameters = parameters_of(self._libvirt, options, self._disks, to.migration_uri, self._live, to.definition)
        try:
            domain.migrateToURI3(to.address.partition("#")[0], parameters, flags)
        except self._libvirt.libvirtError as error:
            if HAS_LEFTOVERS in str(error) and not self._is_cleared:
                remove_leftovers(domain)
                self._is_cleared = True
                self._migrate(domain, options, post_copy)
                return
            if not post_copy or LACKS_POST_COPY not in str(error):
                raise
            logger.warning("this host has no post-copy: guest %s is transferred without: %s", self._slot.key, error)
            self._slot.update_departure(_without_post_copy)
            self._migrate(domain, options, post_copy=False)

    def _give_up(self, domain: Libvirt, departure: Departure) -> None:
        """Resume the guest, if libvirt says that it stayed here."""
        libvirt = self._libvirt
        departure = self._slot.read_departure() or departure
        if not departure.is_open or not domain.isActive() or is_copying(libvirt, domain):
            return
        if is_paused_for(libvirt, domain, POST_COPY):
            return
        if departure.power_before == "running" and domain.state()[0] == libvirt.VIR_DOMAIN_PAUSED:
            domain.resume()
        self._slot.update_departure(lambda d: replace(d, state="failed", trouble=self.trouble))


def _without_post_copy(departure: Departure) -> Departure:
    return replace(departure, options=replace(departure.options, post_copy=False))
