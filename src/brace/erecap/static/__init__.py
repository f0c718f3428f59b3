"""The fast path for one sequence: caches that stay in place, no waiting for the device, graphs."""
