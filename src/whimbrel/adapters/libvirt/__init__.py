"""The hypervisor port on libvirt and QEMU. Only this package imports libvirt."""

from whimbrel.adapters.libvirt.host_capabilities import VirtType
from whimbrel.adapters.libvirt.hypervisor import LibvirtHypervisor

__all__ = ["LibvirtHypervisor", "VirtType"]
