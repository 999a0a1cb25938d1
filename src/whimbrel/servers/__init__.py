"""The rest of a server's life: create, delete, power, snapshots and look-up. They are sagas, as moves are."""
