"""The tick guest's image and how its console is read; that it runs is what the live tests show."""

import pytest

from whimbrel.embedded.tick_guest import Tick, image, kept_ticks, ticks


def test_an_image_boots_and_carries_its_marker() -> None:
    file = image("hello", size_bytes=4096)
    assert len(file) == 4096
    assert file[510:512] == b"\x55\xaa"
    assert file[512:].rstrip(b"\0") == bytes(8) + b"hello"


def test_the_variant_for_live_moves_boots_too_and_counts_on_its_disk() -> None:
    disk = image("anna", for_live_moves=True)
    assert disk[510:512] == b"\x55\xaa"
    assert disk != image("anna")
    assert kept_ticks(disk) == 0
    assert kept_ticks(disk[:516] + b"\x07\x01\0\0") == 0x107


@pytest.mark.parametrize("marker", ["x" * 65, "new\nline", "ü"])
def test_a_marker_must_be_readable_on_a_console(marker: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        image(marker)


@pytest.mark.parametrize("size_bytes", [0, 512, 1025])
def test_an_image_is_whole_sectors(size_bytes: int) -> None:
    with pytest.raises(ValueError, match="sectors"):
        image(size_bytes=size_bytes)


def test_only_whole_lines_of_a_console_count() -> None:
    console = (
        "SeaBIOS\n"
        "tick nonce=07df72a9 boots=00000001 ticks=00000010 marker=hello world\n"
        "tick nonce=0623e9b8 boots=0000000a ticks=00000000 marker=hello"
    )
    assert ticks(console) == [Tick("07df72a9", 1, 16, "hello world")]
