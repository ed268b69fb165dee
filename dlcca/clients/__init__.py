"""Where a Dask client comes from."""
