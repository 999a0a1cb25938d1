"""Metrics for Prometheus: of this process, measured as events occur; of the cloud, read on each scrape.

Invariant: names and labels contain no secrets, and their number does not grow with servers, users or requests.
"""
