"""Build the processes of a cloud from their settings."""
