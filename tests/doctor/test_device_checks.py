"""PCI devices and volume attachments in the records of the cells."""

from tests.doctor.nova_copy import NovaCopy, server
from whimbrel.adapters.sql.nova_databases import nova_tables as nova


def test_pci_devices(copy: NovaCopy) -> None:
    def device(address: str, of: str, **values: object) -> None:
        copy.add("one", nova.pci_devices, compute_node_id=1, address=address, dev_type="type-VF", status="allocated",
                 instance_uuid=of, deleted=0, **values)  # fmt: skip

    device("0000:01:00.0", server(1))
    device("0000:01:00.1", server(1), parent_addr="0000:01:00.0")
    device("0000:02:00.0", server(3))
    device("0000:03:00.0", server(2))
    assert copy.kinds() == [
        ("pci_of_gone_server", "n1/0000:02:00.0"),
        ("pci_on_other_host", "n1/0000:03:00.0"),
        ("pci_claimed_twice", "n1/0000:01:00.1"),
    ]


def test_volume_attachments(copy: NovaCopy) -> None:
    copy.add_server(3)
    for owner, attachment in ((server(1), "a"), (server(3), "a"), (server(4), "b"), (server(1), "c")):
        copy.add("one", nova.block_device_mapping, instance_uuid=owner, volume_id="v", attachment_id=attachment,
                 deleted=0)  # fmt: skip
    assert copy.kinds() == [
        ("volume_of_gone_server", f"{server(4)}/v"),
        ("attachment_shared", f"{server(1)}/v"),
        ("attachment_shared", f"{server(3)}/v"),
    ]
