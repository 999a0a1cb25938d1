"""Maintenances: plan how hosts are emptied, and execute the plan within budgets."""
