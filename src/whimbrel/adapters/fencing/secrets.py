"""The passwords of fence devices: read from their files at each use, never kept."""

from pathlib import Path

from whimbrel.domain.errors import Refused


def read_password(file: Path) -> str:
    """Raises: Refused: the file cannot be read, or is empty."""
    try:
        password = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"the password of the fence device, {file}, cannot be read here: {error}") from None
    if not password:
        raise Refused(f"the password of the fence device, {file}, is empty: write it there")
    return password
