"""What is on disk: names, shapes, checksums."""
