"""An engine for lines of steps that survive every crash. It has never heard of servers."""
