"""One step each: find what is missing in the store, compute it, mark it done."""
