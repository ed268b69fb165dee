"""Scheduled flows: a folder or bucket receives recordings, and each night the new ones are embedded and published.

One `pipeline.toml` says where recordings come from and where results go (`settings`); a catalog in SQLite knows what
was done (`catalog`). A night is made of steps, plain functions that take a `Pipeline` and may be called one by one by
whoever schedules them; `night.run` calls them all. Each step does what the catalog says is missing and no more, so that
one that was killed is finished by the next.

::

    discover   which files are new, changed, the same as another, or not complete yet
    order      the day that each recording belongs to, by its header
    embed      ingest, transform with the current model, and the quality gate
    publish    the partition of a day, whole or not at all
    drift      whether the recording is like those of the fit
    models     the first fit, refits, the comparison, promotion and rollback
    retention  what is old and no longer needed
    notify     those who want to know
"""
