"""The numerics mapped over blocks, lazily or in waves, and what that takes; no store is ever opened here."""
