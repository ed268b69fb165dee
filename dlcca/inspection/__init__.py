"""Questions to a fitted model: stability, which views share what, private parts, tuning."""
