"""Coordinates for other people's tools: tables (Parquet, CSV), xarray, and MNE.

Each takes the address of a finished run, or of a store that ``dlcca transform`` wrote.
"""

from dlcca.export.formats import FORMATS, to_csv, to_mne, to_parquet, to_xarray, write

__all__ = ["FORMATS", "to_csv", "to_mne", "to_parquet", "to_xarray", "write"]
