"""Settings of every test process, made before any test module is imported."""

import os

# pynwb caches a pickle when it is imported first; test processes that start together would read it half-written.
os.environ.setdefault("PYNWB_NO_CACHE_DIR", "1")
