"""Whimbrel: a compute control plane that moves servers without losing one."""
