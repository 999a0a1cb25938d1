"""The compute API: checks requests, records them, answers.

Invariant: a request never retries and never waits for work. app.py receives requests, routes.py is the table of all
URLs, each resource has one module of handlers, schemas/ defines what clients may send.
"""
