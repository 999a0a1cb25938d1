"""Announces what happened to servers to other services of the cloud, as Nova does: docs/notifications.md."""
