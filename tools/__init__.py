"""What draws the generated pages and tells the scenarios of the tests: it needs a checkout and is not in the wheel."""
