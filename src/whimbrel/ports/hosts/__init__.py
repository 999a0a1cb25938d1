"""Interfaces of hosts: agents, hypervisors and their durable store."""
