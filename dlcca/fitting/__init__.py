"""The fit: one module for each stage, from the scan of the inputs to the embedding."""
