"""How resources are shown, by microversion."""
