"""Tools that draw the generated pages, and the scenarios of the tests. They need a checkout; the wheel lacks them."""
