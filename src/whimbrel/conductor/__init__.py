"""The conductor: takes due runs and drives them."""
