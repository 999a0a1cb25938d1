"""The metadata of guests: the same data for config drives and for the metadata service.

Source: Nova's metadata in OpenStack's and in EC2's format, see doc/source/user/metadata.rst there.
"""
