"""Figures of a cloud for Prometheus: what this process does, measured as it happens; how the cloud stands, read when
somebody asks.

Law: names and labels hold no secrets, and their number does not grow with servers, users or requests.
"""
