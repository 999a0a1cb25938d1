"""Where a server may go: a pure function, snapshot in, ordered choices and the reasons out."""
