"""Real guests: libvirt and QEMU behind the hypervisor port. Nothing outside this package knows libvirt."""

from whimbrel.adapters.libvirt.host_capabilities import VirtType
from whimbrel.adapters.libvirt.hypervisor import LibvirtHypervisor

__all__ = ["LibvirtHypervisor", "VirtType"]
