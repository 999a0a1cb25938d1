"""Repair inconsistencies that `prove` finds: plan the actions, check them against guards, apply them."""
