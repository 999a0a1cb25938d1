"""Attach and detach interfaces and volumes of existing servers."""
