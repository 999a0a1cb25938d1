"""A guest that comes to a host by a live transfer, as its libvirt has it.

Invariant: it sleeps until it is woken, also when its memory is complete: libvirt's source resumes the guest there when
the target's last answer is lost, and only the source knows whether it did.
"""

import xml.etree.ElementTree as ET
from typing import Literal

from whimbrel.adapters.libvirt.connection import Libvirt, find_domain
from whimbrel.adapters.libvirt.domain_xml import ASLEEP, NAMESPACE, read_mark
from whimbrel.domain.guest import GuestKey

Arrival = Literal["none", "coming", "asleep", "awake", "stopped"]
"""coming: its memory is not complete. stopped: there is a definition of it, but no memory."""

PREFIX = "whimbrel"


def arrival(libvirt: Libvirt, libvirtd: Libvirt, key: GuestKey) -> Arrival:
    """Observe a guest at the target of its transfer."""
    domain = find_domain(libvirt, libvirtd, key.server)
    if domain is None:
        return "none"
    try:
        return _observed(libvirt, domain, key)
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return "none"
        raise


def _observed(libvirt: Libvirt, domain: Libvirt, key: GuestKey) -> Arrival:
    mark = read_mark(libvirt, domain)
    if mark.get("slot") != key.slot:
        return "none"
    if not domain.isActive():
        return "stopped"
    if ASLEEP not in mark or domain.state()[0] != libvirt.VIR_DOMAIN_PAUSED:
        return "awake"
    return "asleep" if domain.isPersistent() and not _is_in_job(libvirt, domain) else "coming"


def _is_in_job(libvirt: Libvirt, domain: Libvirt) -> bool:
    """Check whether libvirt still receives the guest; then it has no statistics to tell."""
    try:
        return bool(domain.jobStats()["type"] != libvirt.VIR_DOMAIN_JOB_NONE)
    except libvirt.libvirtError as error:
        if error.get_error_code() in (libvirt.VIR_ERR_OPERATION_UNSUPPORTED, libvirt.VIR_ERR_OPERATION_INVALID):
            return True
        raise


def wake(libvirt: Libvirt, libvirtd: Libvirt, key: GuestKey) -> None:
    """Resume a guest, or leave it paused, as it was before its transfer. Repeatable; no effect if it is not there."""
    if arrival(libvirt, libvirtd, key) not in ("asleep", "awake"):
        return
    domain = find_domain(libvirt, libvirtd, key.server)
    if domain is None:
        return
    mark = read_mark(libvirt, domain)
    if ASLEEP not in mark:
        return
    if mark.pop(ASLEEP) == "running" and domain.state()[0] == libvirt.VIR_DOMAIN_PAUSED:
        domain.resume()
    content = ET.tostring(ET.Element("guest", mark), encoding="unicode")
    domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, content, PREFIX, NAMESPACE, libvirt.VIR_DOMAIN_AFFECT_LIVE)
