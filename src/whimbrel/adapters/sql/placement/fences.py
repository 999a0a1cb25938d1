"""The fence of Placement: the newest epoch of each run that has written here."""

from whimbrel.adapters.sql.engine.known_orders import forgetting, known_orders, noting, raising
from whimbrel.adapters.sql.tables.placement import fences

orders_of = known_orders(fences)
forget_fences = forgetting(fences)
raise_fence = raising(fences, "placement")
note_order = noting(raise_fence)
