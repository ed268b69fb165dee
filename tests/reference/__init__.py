"""Slow, literal twins of the package: each function reads like the paper (Yair & Talmon, local CCA)."""
