"""The services besides compute: network, volumes, images, identity."""
