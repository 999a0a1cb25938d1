"""The fence of a cell: the newest epoch of each run that has written here."""

from whimbrel.adapters.sql.engine.known_orders import forgetting, known_orders, noting, raising
from whimbrel.adapters.sql.tables.cell import fences

orders_of = known_orders(fences)
forget_fences = forgetting(fences)
pass_fence = raising(fences, "the cell")
note_order = noting(pass_fence)
