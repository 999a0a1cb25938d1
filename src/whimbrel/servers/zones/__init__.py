"""Keep servers consistent with the availability zones of their hosts."""
