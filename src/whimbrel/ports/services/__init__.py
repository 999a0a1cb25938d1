"""The services beside compute: network, volumes, images, identity."""
