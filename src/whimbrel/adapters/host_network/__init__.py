"""The networks of servers on a Linux host: namespaces, bridges, taps, DHCP, security groups and metadata.

Each network has a network namespace of its own on the host, with a bridge, and a DHCP server. A port has a tap device
in the host's own namespace, which QEMU opens, and a pair of virtual Ethernet devices from there to the bridge. So the
addresses of networks may overlap, and neither devices nor packet filters of the host itself are touched.
"""
