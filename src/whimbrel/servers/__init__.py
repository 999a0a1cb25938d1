"""The rest of a server's life: create, delete, power, snapshots, and looking it up. Runs on the same rails as moves."""
