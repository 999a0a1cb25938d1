"""A cloud as a fixture, for people who test tools that use OpenStack: `pip install whimbrel[testing]`."""
