"""What the embedded services need: their stores, and the machine that serves volumes."""
