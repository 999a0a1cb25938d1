"""The age of a message is known though no clock is right."""

import pytest

from whimbrel.adapters.bus.message_ages import DRIFT, SENDERS, MessageAges


class Receiver:
    """A machine; `now` is the true time, and its own clock is `ahead_s` ahead of it."""

    def __init__(self, ahead_s: float = 0.0, rate: float = 1.0) -> None:
        self.now = 0.0
        self._ahead_s = ahead_s
        self._rate = rate
        self.ages = MessageAges(lambda: self.now * self._rate + self._ahead_s)

    def hears(self, sent_at: float, after_s: float, sender: str = "a", sender_ahead_s: float = 0.0) -> float:
        self.now = sent_at + after_s
        return self.ages.age_s(sender, sent_at + sender_ahead_s)


@pytest.mark.parametrize("ahead_s", [-3600.0, 0.0, 3600.0, 1e7])
def test_clocks_may_be_apart(ahead_s: float) -> None:
    receiver = Receiver(ahead_s)
    assert receiver.hears(100.0, after_s=0.0) == 0.0
    assert receiver.hears(110.0, after_s=40.0) == pytest.approx(40.0, abs=0.1)
    assert receiver.hears(160.0, after_s=0.5) == pytest.approx(0.5, abs=0.1)


def test_each_sender_has_a_clock_of_its_own() -> None:
    receiver = Receiver()
    for sender, ahead_s in (("a", 0.0), ("b", -7200.0), ("c", 7200.0)):
        receiver.hears(100.0, 0.0, sender, ahead_s)
        assert receiver.hears(101.0, 30.0, sender, ahead_s) == pytest.approx(30.0, abs=0.1)


def test_a_first_message_counts_as_new_until_a_faster_one_comes() -> None:
    receiver = Receiver()
    assert receiver.hears(100.0, after_s=60.0) == 0.0
    assert receiver.hears(161.0, after_s=61.0) == pytest.approx(1.0, abs=0.1)
    assert receiver.hears(230.0, after_s=0.0) == 0.0
    assert receiver.hears(231.0, after_s=60.0) == pytest.approx(60.0, abs=0.1)


@pytest.mark.parametrize("rate", [1 - DRIFT / 2, 1 + DRIFT / 2])
def test_clocks_may_drift_for_a_week(rate: float) -> None:
    receiver = Receiver(rate=rate)
    ages = [receiver.hears(minute * 60.0, after_s=0.01) for minute in range(7 * 24 * 60)]
    assert max(ages) < 0.1
    assert receiver.hears(receiver.now + 1.0, after_s=60.0) == pytest.approx(60.0, abs=0.2)


def test_senders_are_forgotten() -> None:
    receiver = Receiver()
    for number in range(3 * SENDERS):
        receiver.hears(float(number), 0.0, f"sender {number}")
    assert len(receiver.ages._least) == SENDERS
