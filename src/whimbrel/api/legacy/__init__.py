"""Routes that Nova keeps for old clients only: refusals of removed URLs, and proxies to other services."""
