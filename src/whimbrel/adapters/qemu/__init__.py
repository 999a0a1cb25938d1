"""QEMU's tools and processes, and the files that they work on: for guests' disks, and for volumes.

Law: it knows neither libvirt nor the volume service; both use it.
"""
