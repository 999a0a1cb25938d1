"""What may be sent, as data: one module per resource, `Body` and `Query` per URL, by microversion."""
