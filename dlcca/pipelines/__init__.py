"""Scheduled pipelines: new recordings in a folder or bucket are embedded and published by every run.

`settings` reads `pipeline.toml`; `catalog` records in SQLite what was done. A run (`nightly_run`) consists of steps:
functions of a `context.Pipeline` that do only what is missing by the catalog, so that a killed run is completed by the
next one. `prefect_flow`, or a scheduler of this machine (`schedule`), starts runs.
"""
