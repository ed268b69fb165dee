"""What clouds are asked for, held against the classes of dask-cloudprovider; no cloud is needed."""

import sys

import pytest

from dlcca.clusters import cloud
from dlcca.clusters.dask_config import needs
from dlcca.clusters.profile import included_folder, of, read
from dlcca.errors import SettingsError

AWS = {"kind": "cloud", "provider": "aws", "image": "i:1", "workers": 4, "cores": 2, "memory_gib": 3}


def test_the_ready_file_says_only_what_the_class_takes():
    profile = read(included_folder() / "cloud.toml")
    kind = cloud.provider_class(profile)
    cloud.refuse_unknown(kind, profile)
    options = cloud.cloud_options(profile)
    assert options["region"] == "eu-central-1"
    assert options["instance_type"] == "m6i.xlarge"


def test_machines_speak_tls_and_have_the_workers_of_the_profile():
    options = cloud.cloud_options(of({**AWS, "options": {"spot": True}}))
    assert options["security"] is True
    assert options["worker_options"] == {"nthreads": 2, "memory_limit": 6 * 2**30}
    assert options["scheduler_options"] == {"dashboard": False}
    assert options["docker_image"] == "i:1"
    assert options["spot"] is True


def test_an_option_that_no_class_takes_is_refused_before_machines_start():
    profile = of({**AWS, "options": {"subnet": "x"}})
    with pytest.raises(SettingsError, match="did you mean 'subnet_id'"):
        cloud.refuse_unknown(cloud.provider_class(profile), profile)


@pytest.mark.parametrize("key", ["token", "admin_password", "aws_secret", "service_account_credentials"])
def test_secrets_are_refused(key):
    with pytest.raises(SettingsError, match="looks like a secret"):
        cloud.cloud_options(of({**AWS, "options": {key: "x"}}))


def test_tls_cannot_be_turned_off():
    with pytest.raises(SettingsError, match="security is set by dlcca"):
        cloud.cloud_options(of({**AWS, "options": {"security": False}}))


def test_a_package_that_is_missing_is_told_with_the_extra_that_brings_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask_cloudprovider.hetzner", None)
    with pytest.raises(SettingsError, match=r"pip install 'dlcca\[cloud\]' 'dask-cloudprovider\[hetzner\]'"):
        cloud.provider_class(of({**AWS, "provider": "hetzner"}))
    with pytest.raises(SettingsError, match=r"dlcca\[hpc\]"), needs("dask-jobqueue", "hpc"):
        raise ImportError("No module named 'dask_jobqueue'")
