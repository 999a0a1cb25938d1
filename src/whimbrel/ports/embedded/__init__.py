"""Interfaces of the embedded services: their stores, and the machine that serves volumes."""
