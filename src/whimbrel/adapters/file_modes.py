"""File modes: other users of this machine cannot read anything that the cloud stores.

Invariant: modes are only narrowed, and links are not followed. The one exception is a directory above guests: QEMU
often runs as a user of its own and needs search permission.
"""

import os
import pwd
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from whimbrel.domain.errors import Refused

UMASK = 0o077
FILE = 0o600
DIRECTORY = 0o700
SEARCHABLE = 0o711
"""Others can open files by name, but not list them."""

_OTHERS = 0o077
_SEARCH = 0o011


def narrow_tree(root: Path, guests: Collection[Path] = ()) -> None:
    """Narrow the modes of a directory tree.

    guests: subdirectories that are left unchanged; directories above them stay searchable for QEMU's user.
    Raises: Refused: another user owns a part of it, or a mode cannot be changed; includes the command that repairs it.
    """
    for path, is_directory in _tree(root, guests):
        passed = is_directory and any(each.is_relative_to(path) for each in guests)
        _narrow_own(path, SEARCHABLE if passed else DIRECTORY if is_directory else FILE, root)
        if passed:
            _open_for_search(path)


def narrow_guests(root: Path) -> None:
    """Narrow the modes of a host's guests. Files that belong to QEMU's user, while a guest runs, are left unchanged.

    Raises: Refused: a mode cannot be changed; includes the command that repairs it.
    """
    me = os.geteuid()
    for path, is_directory in _tree(root):
        with suppress(FileNotFoundError):
            if me in (0, path.lstat().st_uid) and not path.is_symlink():
                narrow(path, SEARCHABLE if is_directory else FILE)


def narrow(path: Path, allowed: int) -> None:
    """Remove permissions of others beyond `allowed`; a missing file is ignored. Raises: Refused; OSError."""
    try:
        mode = _mode(path)
        if mode & ~allowed & _OTHERS:
            path.chmod(mode & allowed)
            mode = _mode(path)  # some file systems do not store modes
    except (FileNotFoundError, NotADirectoryError):
        return
    except PermissionError as error:
        raise _open_to_others(path, str(error.strerror)) from None
    if mode & ~allowed & _OTHERS:
        raise _open_to_others(path, "its file system keeps no modes")


def create(path: Path) -> None:
    """Create an empty file for its owner only, or narrow the mode of an existing one. Raises: Refused."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE))
    except FileExistsError:
        narrow(path, FILE)


def _narrow_own(path: Path, allowed: int, root: Path) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISLNK(found.st_mode):
        _check_target(path)
        return
    if found.st_uid != os.geteuid():
        if os.access(path, os.R_OK) or path == root:  # otherwise not the cloud's, like lost+found
            raise _of_another(path, found.st_uid, root)
        return
    narrow(path, allowed)


def _check_target(link: Path) -> None:
    """Raises: Refused: others can read a link's target. The target's owner is not checked."""
    try:
        mode = _mode(link)
    except FileNotFoundError:
        return
    if mode & _OTHERS:
        raise _open_to_others(link.resolve(), f"{link} is a link to it, and links are not followed to change modes")


def _open_for_search(directory: Path) -> None:
    mode = _mode(directory)
    if not mode & _SEARCH:
        directory.chmod(mode | _SEARCH)


def _tree(root: Path, beyond: Collection[Path] = ()) -> Iterator[tuple[Path, bool]]:
    """Yield each path of a directory tree, and whether it is a directory. beyond: excluded paths."""
    left = [root]
    while left:
        directory = left.pop()
        yield directory, True
        try:
            entries = list(os.scandir(directory))
        except (FileNotFoundError, PermissionError):  # deleted, or not the cloud's
            continue
        for entry in entries:
            path = Path(entry.path)
            if path in beyond:
                continue
            if entry.is_dir(follow_symlinks=False):
                left.append(path)
            else:
                yield path, False


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _open_to_others(path: Path, why: str) -> Refused:
    return Refused(
        f"other users of this machine can read {path}, and its mode cannot be changed ({why}): chmod -R go= {path}"
    )


def _of_another(path: Path, owner: int, root: Path) -> Refused:
    me = _name(os.geteuid())
    return Refused(
        f"{path} belongs to user {_name(owner)}, and Whimbrel runs as {me}: run it as {_name(owner)}, or:"
        f" sudo chown -R {me} {root}"
    )


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
