"""Shared by the HTTP front ends: requests, replies, errors, routes, versions, schemas and policy."""
