"""What users and operators set up: flavors, key pairs, quotas, server groups."""
