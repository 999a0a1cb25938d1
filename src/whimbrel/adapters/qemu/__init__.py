"""QEMU's tools and processes, and their files: for guests' disks and for volumes.

Invariant: this package depends neither on libvirt nor on the volume service; both use it.
"""
