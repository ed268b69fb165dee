"""One HTML page about a finished run, that needs no network and no scripts."""
