"""Scheduled pipelines: new recordings in a folder or bucket are embedded and published by every run.

`settings` reads `pipeline.toml`; `catalog` records in SQLite what was done. A run (`nightly_run`) consists of steps:
functions of a `context.Pipeline` that do only what is missing by the catalog, so that a killed run is completed by the
next one. `prefect_flow`, or a scheduler of this machine (`schedule`), starts runs.

::

    recordings  which files (`sources`) are new, changed, duplicates or incomplete; the day and status of each recording
    embed       ingest, quality gate, and transform with the current model
    publish     the partition of a day, completely or not at all
    drift       whether a recording differs from those of the fit
    models      the first fit and refits; `versions` compares, promotes and rolls back
    retention   removal of what is old and not needed
    summary     the result of a run, and notifications of it; `page` draws all runs
"""
