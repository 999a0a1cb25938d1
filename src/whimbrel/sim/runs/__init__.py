"""Run, count and shrink simulations."""
