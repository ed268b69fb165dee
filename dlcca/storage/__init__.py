"""What is on disk: stores, blocks, checksums, locks, retries."""
