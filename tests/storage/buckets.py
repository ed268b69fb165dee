"""A bucket on a server of our own, seen without dlcca."""

import zarr

from dlcca.storage.files import zarr_store

SECRET = "hush-hush-hush"


def environment(folder):
    """Credentials of the tests, and none that this machine may have."""
    none = str(folder / "none")
    known = {"ACCESS_KEY_ID": "testing", "SECRET_ACCESS_KEY": SECRET, "DEFAULT_REGION": "us-east-1"}
    return {
        f"AWS_{key}": value for key, value in {**known, "CONFIG_FILE": none, "SHARED_CREDENTIALS_FILE": none}.items()
    }


def storage():
    """The storage itself, seen without dlcca."""
    import fsspec

    return fsspec.filesystem("s3", use_listings_cache=False)


#: Storages that were forgotten: one that is thrown away complains of connections that it still has.
_FORGOTTEN = []


def forget_storages():
    """Have the next storage be connected anew: they are kept by what was said of them, and the address of the server is
    said in the environment alone."""
    import fsspec

    kind = fsspec.get_filesystem_class("s3")
    _FORGOTTEN.extend(kind._cache.values())
    kind.clear_instance_cache()


def objects(address):
    """Every object under an address with what tells one version of it from another."""
    found = storage().find(address, detail=True)
    return {name: (about["ETag"], about["LastModified"]) for name, about in found.items()}


def sent(address, views, rows, **attributes):
    """The views as Zarr arrays under an address, or a folder."""
    for name, X in views.items():
        place = zarr_store(f"{address}/{name}.zarr")
        chunks = (rows, X.shape[1])
        array = zarr.create_array(place, shape=X.shape, dtype=X.dtype, chunks=chunks, attributes=attributes)
        array[...] = X
