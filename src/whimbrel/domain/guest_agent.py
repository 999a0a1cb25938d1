"""QEMU's guest agent: a program in the guest, which an image promises by its properties."""

from collections.abc import Mapping

TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})


def has_agent(properties: Mapping[str, str]) -> bool:
    """Check whether the guest of an image has the agent."""
    return _is_true(properties, "hw_qemu_guest_agent")


def requires_quiesce(properties: Mapping[str, str]) -> bool:
    """Check whether a running guest of an image must have frozen its file systems for a snapshot."""
    return _is_true(properties, "os_require_quiesce")


def _is_true(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "").strip().lower() in TRUE


def admin_of(properties: Mapping[str, str]) -> str:
    """Return the user of the guest whose password is the administrator's."""
    usual = "Administrator" if properties.get("os_type") == "windows" else "root"
    return properties.get("os_admin_user") or usual
