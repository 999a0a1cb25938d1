"""Real guests: libvirt and QEMU behind the hypervisor port. Nothing outside this package knows libvirt."""

from whimbrel.adapters.libvirt.hypervisor import LibvirtHypervisor
from whimbrel.adapters.libvirt.machine import VirtType

__all__ = ["LibvirtHypervisor", "VirtType"]
