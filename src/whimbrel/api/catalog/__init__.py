"""What users and operators configure: flavors, key pairs, quotas, server groups."""
