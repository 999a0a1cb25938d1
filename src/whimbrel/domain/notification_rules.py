"""The operator's settings for notifications that all processes of a cloud share."""

from typing import Literal

import msgspec

AuditPeriod = Literal["hour", "day", "month", "year"]


class NotificationRules(msgspec.Struct, frozen=True, kw_only=True):
    """From the table [notifications]; Nova's names and defaults where Nova has them."""

    enabled: bool = False  # whether the journal marks what is to be announced
    notification_format: Literal["versioned", "unversioned", "both"] = "versioned"  # Nova's default is "unversioned"
    notify_on_state_change: Literal["none", "vm_state", "vm_and_task_state"] = "none"  # whether updates are announced
    bdms_in_notifications: bool = False  # whether payloads name the volumes
    instance_usage_audit: bool = False  # whether all servers are accounted for at the end of each period
    instance_usage_audit_period: AuditPeriod = "month"
    backlog_s: float = 86_400.0  # what is older is not announced any more

    @property
    def sends_versioned(self) -> bool:
        return self.notification_format != "unversioned"

    @property
    def sends_unversioned(self) -> bool:
        return self.notification_format != "versioned"
