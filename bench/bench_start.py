"""Processor time that a cloud needs until it answers: its first start, with everything to be made, and a later one."""

from cloud import Cloud
from figures import report

with Cloud() as cloud:
    for name in ("first start", "second start"):
        report(name, processor_s=cloud.processor_s(), goal_s=2.0)
        cloud.stop()
        cloud.start()
