"""How long records may stay unchanged before an operation is called stuck."""

from dataclasses import dataclass

LONG_TASKS = frozenset(
    {
        "spawning", "block_device_mapping", "image_snapshot", "image_snapshot_pending", "image_pending_upload",
        "image_uploading", "image_backup", "resize_migrating", "resize_finish", "resize_reverting", "migrating",
        "rebuild_block_device_mapping", "rebuild_spawning", "shelving", "shelving_image_pending_upload",
        "shelving_image_uploading", "shelving_offloading", "unshelving", "suspending", "resuming", "rescuing",
        "powering-off", "deleting",
    }
)  # fmt: skip
"""Task states in which a host copies data or waits for a guest. The others last as long as a message."""
DOWN_S = 120.0
"""After which silence a nova-compute is called down; Nova's default is half of it."""


@dataclass(frozen=True)
class StuckLimits:
    """settle_s: nothing that changed so short a time ago is judged. message_s, work_s: for short and long states."""

    settle_s: float = 60.0
    message_s: float = 300.0
    work_s: float = 3600.0

    def limit_s(self, task_state: str | None, *, host_is_down: bool) -> float:
        return self.work_s if task_state in LONG_TASKS and not host_is_down else self.message_s
