"""The stores of the control plane."""
