"""The compute API: checks what is asked, writes it down, answers.

Law: a request never retries and never waits for work. app.py receives, routes.py is the table of all URLs, one module
per resource answers, schemas/ says what may be sent.
"""
