"""The conductor: takes runs that are due and drives them."""
