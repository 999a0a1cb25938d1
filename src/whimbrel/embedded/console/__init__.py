"""Consoles in a browser: the page, and the proxy between its WebSocket and a host's console relay."""
