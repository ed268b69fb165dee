"""Each fast routine against its slow twin in tests/reference, and against what the mathematics promises."""
