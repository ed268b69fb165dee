"""Workers as virtual machines of a cloud, through dask-cloudprovider, which makes the keys of a run by itself.

There is one worker for each machine, of ``cores`` threads. The provider's own login is used, as its tools set it up;
a cluster file holds no password.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from dlcca.clusters import dask_config
from dlcca.clusters.messages import Say
from dlcca.clusters.optional import needs
from dlcca.clusters.profile import Cloud
from dlcca.errors import ClusterError, SettingsError, suggest

EXTRA = "cloud"

#: Module and class of each provider, and what it calls the region, the machine and the container image.
CLASSES = {
    "aws": ("aws", "EC2Cluster", "region", "instance_type"),
    "azure": ("azure", "AzureVMCluster", "location", "vm_size"),
    "gcp": ("gcp", "GCPCluster", "zone", "machine_type"),
    "digitalocean": ("digitalocean", "DropletCluster", "region", "size"),
    "hetzner": ("hetzner", "HetznerCluster", "location", "server_type"),
    "openstack": ("openstack", "OpenStackCluster", "region", "size"),
}
#: Options that say who somebody is: they belong into the provider's own files, not into ours.
SECRETS = ("token", "password", "secret", "credential", "access_key")
#: Options that are ours to set.
OURS = ("security", "n_workers", "docker_image", "worker_options", "scheduler_options", "env_vars", "protocol")


@contextmanager
def cloud_client(profile: Cloud, say: Say) -> Iterator[Any]:
    """A client whose workers are machines of a cloud; all machines are gone with the block."""
    from distributed import Client

    with _started(profile) as cluster, Client(cluster, timeout="60s") as client:
        if profile.is_adaptive:
            cluster.adapt(minimum=profile.jobs(profile.fewest), maximum=profile.jobs(profile.most))
        else:
            cluster.scale(profile.jobs(profile.fewest))
        _await_worker(client, profile)
        yield client


def provider_class(profile: Cloud) -> Any:
    module, name, *_ = CLASSES[profile.provider]
    package = f"dask-cloudprovider[{profile.provider}]"
    with needs(package, EXTRA, f" '{package}'"):
        return getattr(import_module(f"dask_cloudprovider.{module}"), name)


def options(profile: Cloud) -> dict[str, Any]:
    """What the provider's class is told."""
    _, _, region, machine = CLASSES[profile.provider]
    for key in profile.options:
        if any(word in key.lower() for word in SECRETS):
            raise SettingsError(
                f"[options] {key} looks like a secret, which a cluster file must not hold; log in with the tools of "
                f"{profile.provider} instead, or set it in the environment."
            )
        if key in OURS:
            raise SettingsError(f"[options] {key} is set by dlcca; leave it out.")
    said = {region: profile.region, machine: profile.machine}
    return {
        **{key: value for key, value in said.items() if value is not None},
        **profile.options,
        "docker_image": profile.image,
        "security": True,
        "n_workers": 0,
        "env_vars": dask_config.environment(profile),
        "worker_options": {"nthreads": profile.cores, "memory_limit": int(profile.cores * profile.memory_gib * 2**30)},
        "scheduler_options": {"dashboard": False},
    }


def refuse_unknown(kind: Any, profile: Cloud) -> None:
    """An option that no class of the provider takes is a mistake, which would else be found after machines started."""
    known = {
        name
        for base in kind.__mro__
        if "__init__" in vars(base)
        for name, parameter in inspect.signature(base.__init__).parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY) and name != "self"
    }
    for key in profile.options:
        if key not in known:
            raise SettingsError(f"[options] {key} is not an option of {kind.__name__}; {suggest(key, sorted(known))}")


def _started(profile: Cloud) -> Any:
    said = options(profile)
    kind = provider_class(profile)
    refuse_unknown(kind, profile)
    try:
        return kind(**said)
    except Exception as error:  # each provider raises errors of its own
        raise ClusterError(
            f"{profile.provider} does not start the scheduler: {type(error).__name__}: {error}. Are you logged in, and "
            "do region, machine and [options] exist?"
        ) from error


def _await_worker(client: Any, profile: Cloud) -> None:
    if not profile.fewest:
        return
    try:
        client.wait_for_workers(1, timeout=60 * profile.start_wait_min)
    except TimeoutError as error:
        raise ClusterError(
            f"no machine gave a worker within start_wait_min = {profile.start_wait_min:g} minutes; look at the "
            f"machines in the console of {profile.provider}: can they fetch {profile.image}?"
        ) from error
