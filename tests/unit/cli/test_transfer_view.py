"""How the transfer of a live migration looks: what was copied, how fast, what is expected, what the policy does."""

from whimbrel.api.views.moves import Transfer
from whimbrel.cli import transfer_view

MIB = 1 << 20


def test_a_transfer_that_goes_well() -> None:
    transfer = Transfer(
        memory_total=2048 * MIB, memory_processed=1536 * MIB, disk_total=10240 * MIB, disk_processed=10240 * MIB,
        rate=117 * MIB, dirty_rate=900, elapsed_s=12.5, prediction="expected to end in 4 s",
    )  # fmt: skip
    assert transfer_view.lines(transfer) == [
        "copied: memory 1.5 GiB of 2.0 GiB, disks 10 GiB of 10 GiB in 12.5 s",
        "rate: 117 MiB/s; the guest writes 900 B/s",
        "prediction: expected to end in 4 s",
    ]


def test_a_transfer_that_does_not_converge() -> None:
    transfer = Transfer(
        memory_total=MIB, rate=MIB, dirty_rate=2 * MIB, throttle_percent=40, pause_ms=750, elapsed_s=901.0,
        prediction="will not converge at this rate", rung="longer_pause",
    )  # fmt: skip
    assert transfer_view.lines(transfer)[1:] == [
        "rate: 1.0 MiB/s; the guest writes 2.0 MiB/s, slowed down by 40 %",
        "pause at the switch-over: 750 ms",
        "prediction: will not converge at this rate",
        "late: the policy has come to longer_pause",
    ]
