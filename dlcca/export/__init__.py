"""Coordinates for other people's tools: tables (Parquet, CSV), xarray, and MNE.

Each takes the address of a finished run, or of a store that ``dlcca transform`` wrote.
"""

from __future__ import annotations

from dlcca.export.mne_raw import to_mne
from dlcca.export.tables import to_csv, to_parquet
from dlcca.export.writing import FORMATS, write
from dlcca.export.xarrays import to_xarray

__all__ = ["FORMATS", "to_csv", "to_mne", "to_parquet", "to_xarray", "write"]
