"""A plug-in of the `openstack` command: `openstack move list`, `show` and others, and `openstack maintenance ...`.

Invariant: it uses the API alone, so that it can be installed beside any client:
`pip install 'whimbrel[openstackclient]'`.
"""
