"""Findings of the doctor: one thing that is wrong, with evidence, probable cause and the commands that repair it."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

TITLES: Mapping[str, str] = {
    "stuck_server": "Servers whose operation stands still",
    "stuck_confirm": "Confirmations that never ended",
    "stuck_verify": "Servers that wait for a verdict, and cannot get one",
    "stuck_create": "Creates that never came to a cell",
    "stale_migration": "Migration records that never end",
    "offloaded_on_host": "Offloaded servers that are still recorded on a host",
    "allocation_of_migration": "Allocations of migrations that have ended",
    "allocation_of_gone_server": "Allocations of servers that are gone",
    "allocation_of_nobody": "Allocations whose consumer Nova does not know",
    "consumer_left": "Consumers that hold nothing, and keep their servers from claiming",
    "no_allocation": "Servers that hold nothing in Placement",
    "source_not_held": "Servers that wait for a verdict, and no longer hold their source",
    "allocation_elsewhere": "Servers that hold another host than theirs",
    "doubled_allocation": "Servers that hold several hosts",
    "wrong_amounts": "Servers that hold other amounts than their flavor has",
    "wrong_owner": "Servers that quotas count for another project or user",
    "provider_left": "Resource providers of compute nodes that are gone",
    "no_mapping": "Servers that no instance mapping names",
    "mapping_to_wrong_cell": "Instance mappings that name the wrong cell",
    "mapping_queued_for_delete": "Servers in use whose instance mapping says that they are being deleted",
    "mapping_of_deleted_server": "Deleted servers that quotas still count",
    "no_compute_node": "Servers whose compute node no host has",
    "mapping_of_nothing": "Instance mappings of servers that no cell has",
    "server_in_two_cells": "Servers in two cells",
    "hidden_copy": "Hidden copies that a move between cells left",
    "spec_missing": "Servers without a request spec",
    "pci_of_gone_server": "PCI devices of servers that are gone",
    "pci_on_other_host": "PCI devices held on a host that the server is not on",
    "pci_claimed_twice": "PCI devices claimed as a whole and in part",
    "volume_of_gone_server": "Volume attachments of servers that are gone",
    "attachment_shared": "Attachments that several servers use",
    "attachment_of_gone_server": "Attachments in Cinder of servers that are gone",
    "attachment_without_mapping": "Attachments in Cinder that Nova does not record",
    "mapping_without_attachment": "Volumes of servers without an attachment in Cinder",
    "spec_flavor": "Request specs with another flavor than the server",
    "spec_zone": "Servers outside of the zone that their request spec names",
    "group_violated": "Server groups whose policy is not followed",
    "port_of_gone_server": "Ports of servers that are gone",
    "port_on_other_host": "Ports that are bound to another host than their server's",
    "port_binding_failed": "Ports that could not be bound",
    "port_bound_twice": "Ports with a binding that a move left",
    "wrong_bandwidth": "Servers that hold other bandwidth than their ports ask for",
    "stuck_volume": "Volumes whose attach or detach stands still",
    "guest_twice": "Servers that run twice",
    "guest_elsewhere": "Servers whose guest runs on another host",
    "guest_nowhere": "Servers without a guest",
    "guest_left_over": "Guests that a move left",
    "guest_of_no_server": "Guests of servers that are gone",
}
"""All kinds, in the order in which they are shown: commands that release resources come before those that claim.

Attachments come before ports, whose commands reboot servers: a hard reboot deletes attachments that Nova does not
record, and mappings whose attachment is missing. Source: ComputeManager._delete_dangling_bdms.
"""


class Command(msgspec.Struct, frozen=True):
    """A line of a shell, or of SQL in a database. sql_in: the database; only where Nova has no command for it."""

    line: str
    sql_in: str | None = None


class Reboot(Command, frozen=True, kw_only=True):
    """A hard reboot. It is only printed if Nova and Cinder agree on the server's attachments: see command_guards."""

    server: str


class AskHost(Command, frozen=True, kw_only=True):
    """A look at a host for the guest of a server: while it runs there, none of the commands after this one is right.

    It is not printed if the host's hypervisor has been asked: see command_guards.
    """

    server: str
    host: str


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """kind: a key of TITLES. subject: the id that it is about. since: the last write of its records, if known.

    note: what to heed before the commands are run.
    """

    kind: str
    subject: str
    text: str
    cause: str
    name: str = ""
    since: float | None = None
    evidence: Mapping[str, Any] = {}
    commands: Sequence[Command] = ()
    note: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, self.subject


class InFlight(msgspec.Struct, frozen=True, kw_only=True):
    """Work that goes on, or ended a moment ago, and is therefore not judged. since: its last write."""

    subject: str
    name: str
    text: str
    since: float
