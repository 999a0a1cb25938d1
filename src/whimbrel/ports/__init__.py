"""Interfaces to everything outside, as Protocols. They import only domain."""
