"""Files that an option or a setting names: their text, or an error that says which file it is and what is wrong."""

from pathlib import Path

from whimbrel.domain.errors import Invalid


def read_text(file: Path, named_by: str) -> str:
    """Return the text of a file. named_by: the option or setting, as the error begins. Raises: Invalid."""
    try:
        return file.read_text()
    except UnicodeDecodeError:
        raise Invalid(f"{named_by} {file} cannot be read (it is no text in UTF-8): name a readable file") from None
    except OSError as error:
        raise Invalid(f"{named_by} {file} cannot be read ({error.strerror}): name a readable file") from None


def read_word(file: Path, named_by: str, wanted: str) -> str:
    """Return what a file has, without white space around it. wanted: what belongs into it.

    Raises: Invalid: it cannot be read, or is empty.
    """
    word = read_text(file, named_by).strip()
    if not word:
        raise Invalid(f"{named_by} {file} is empty: write {wanted} into it")
    return word
