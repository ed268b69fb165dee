"""Workers as pods of Kubernetes, or as virtual machines of a cloud.

*Kubernetes*, with the keys of the run as a secret. The Dask operator itself does not use TLS. So we describe the
cluster (a DaskCluster resource), let the operator make the pods and replace those that die, and reach the scheduler by
a forwarded port of the Kubernetes API; the number of workers is fixed, since the scaling of the operator would have to
connect to the scheduler.

*Virtual machines*, through dask-cloudprovider, which makes the keys of a run. There is one worker for each machine,
with ``cores`` threads. The login is that of the provider's own tools; a cluster file contains no password.
"""

import base64
import inspect
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from distributed import Client

from dlcca.clusters import dask_config, keys
from dlcca.clusters.dask_config import LOOPBACK, NANNY_GIB, Say, await_workers, needs
from dlcca.clusters.profile import Cloud, Kubernetes
from dlcca.errors import ClusterError, SettingsError, suggest

KEYS = "/run/dlcca-keys"
PORT = 8786
#: The page of the health check of Kubernetes; all others are left out.
HEALTH_ONLY = {"DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES": "['distributed.http.health']"}
SCHEDULER = {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "2Gi"}}


@contextmanager
def kubernetes_client(profile: Kubernetes, say: Say) -> Iterator[Any]:
    """A client whose workers are pods; pods and secret are removed at the end of the block."""
    refuse_adaptive(profile)
    name = f"dlcca-{os.urandom(4).hex()}"
    with (
        tempfile.TemporaryDirectory(prefix="dlcca-") as scratch,
        keys.keys_of_run(Path(scratch)) as security,
        _resources(profile, name, security),
        _forwarded(profile, name) as port,
        Client(f"tls://127.0.0.1:{port}", security=security, timeout="60s") as client,
    ):
        if not await_workers(client, 1, profile.start_wait_min):
            raise ClusterError(
                f"no worker came within start_wait_min = {profile.start_wait_min:g} minutes. kubectl get pods -n "
                f"{profile.namespace} shows why; request less (cores, memory_gib), or wait longer."
            )
        yield client


def refuse_adaptive(profile: Kubernetes) -> None:
    if profile.is_adaptive:
        raise SettingsError(
            "min_workers and max_workers are not for Kubernetes, whose operator would scale without TLS; set workers."
        )


def cluster_manifest(profile: Kubernetes, name: str) -> dict[str, Any]:
    """The DaskCluster resource: one scheduler, and pods of workers; it names the secret and holds no key."""
    with needs("dask-kubernetes", "kubernetes"):
        from dask_kubernetes.operator import make_cluster_spec
    made = make_cluster_spec(name, image=profile.image, n_workers=profile.jobs(profile.fewest), env=[], resources={})
    made["metadata"]["namespace"] = profile.namespace
    scheduler, worker = made["spec"]["scheduler"]["spec"], made["spec"]["worker"]["spec"]
    environment = dask_config.environment(profile)
    options = zip(("--tls-ca-file", "--tls-cert", "--tls-key"), keys.FILES, strict=True)
    tls = [part for option, file in options for part in (option, f"{KEYS}/{file}")]
    scheduler_args = [
        *("python3", "-m", "distributed.cli.dask_scheduler", "--host", "0.0.0.0", "--port", str(PORT)),
        *("--protocol", "tls", "--dashboard-address", ":8787"),
        *("--dashboard" if profile.dashboard else "--no-dashboard", *tls),
    ]
    _fill(scheduler, profile, name, scheduler_args, {**environment, **HEALTH_ONLY}, SCHEDULER)
    # The operator names the service of the scheduler so.
    address = f"tls://{name}-scheduler.{profile.namespace}.svc.cluster.local:{PORT}"
    scratch = [] if profile.scratch is None else ["--local-directory", profile.scratch]
    worker_args = [
        *("python3", "-m", "distributed.cli.dask_worker", address, "--protocol", "tls"),
        *("--name", "$(DASK_WORKER_NAME)", "--nworkers", str(profile.cores), "--nthreads", "1"),
        *("--memory-limit", f"{profile.memory_gib:g}GiB", "--no-dashboard", "--dashboard-address", LOOPBACK),
        *("--death-timeout", "120", *scratch, *tls),
    ]
    memory = f"{round(profile.cores * (profile.memory_gib + NANNY_GIB) * 1024)}Mi"
    resources = {"requests": {"cpu": str(profile.cores), "memory": memory}, "limits": {"memory": memory}}
    _fill(worker, profile, name, worker_args, environment, resources)
    worker["containers"][0]["ports"] = []
    if profile.scratch is not None:
        worker["volumes"].append({"name": "scratch", "emptyDir": {}})
        worker["containers"][0]["volumeMounts"].append({"name": "scratch", "mountPath": profile.scratch})
    if profile.store_secret is not None:
        worker["containers"][0]["envFrom"] = [{"secretRef": {"name": profile.store_secret}}]
    return dict(made)


def _fill(pod: Any, profile: Kubernetes, name: str, args: list[str], environment: Any, resources: Any) -> None:
    """What scheduler and workers have in common."""
    pod["containers"][0] |= {
        "args": args,
        "env": [{"name": key, "value": value} for key, value in environment.items()],
        "resources": resources,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "keys", "mountPath": KEYS, "readOnly": True}],
    }
    pod["volumes"] = [{"name": "keys", "secret": {"secretName": name, "defaultMode": 0o440}}]
    pod["securityContext"] = {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 1000}
    pod["automountServiceAccountToken"] = False
    if profile.pull_secret is not None:
        pod["imagePullSecrets"] = [{"name": profile.pull_secret}]
    if profile.service_account is not None:
        pod["serviceAccountName"] = profile.service_account


def secret_manifest(profile: Kubernetes, name: str, security: Any) -> dict[str, Any]:
    """The keys of the run as a secret, for its pods only."""
    folder = Path(security.tls_ca_file).parent
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {"name": name, "namespace": profile.namespace},
        "data": {file: base64.b64encode((folder / file).read_bytes()).decode() for file in keys.FILES},
    }


@contextmanager
def _resources(profile: Kubernetes, name: str, security: Any) -> Iterator[None]:
    """The secret and the cluster, for as long as the block lasts."""
    with needs("dask-kubernetes", "kubernetes"):
        from kr8s.objects import Secret, new_class
    kind = new_class("DaskCluster", "kubernetes.dask.org/v1", namespaced=True)
    made: list[Any] = []
    try:
        for resource in (Secret(secret_manifest(profile, name, security)), kind(cluster_manifest(profile, name))):
            try:
                resource.create()
            except Exception as error:  # kr8s raises what httpx does, and errors of its own
                raise ClusterError(
                    f"Kubernetes refuses the {resource.kind} {name} in namespace {profile.namespace}: {error}. Is the "
                    "Dask operator installed, and may you create it there? See kubernetes.toml."
                ) from error
            made.append(resource)
        yield
    finally:
        for resource in reversed(made):
            with suppress(Exception):  # the other one must go too
                resource.delete()


@contextmanager
def _forwarded(profile: Kubernetes, name: str) -> Iterator[int]:
    """A port on loopback that leads to the scheduler, once there is one."""
    from kr8s.objects import Pod

    end = time.monotonic() + 60 * profile.start_wait_min
    labels = {"dask.org/cluster-name": name, "dask.org/component": "scheduler"}
    pods: list[Any] = []
    while not any(pod.ready() for pod in pods):
        if time.monotonic() > end:
            raise ClusterError(
                f"no scheduler came up in {profile.start_wait_min:g} minutes (start_wait_min); Kubernetes says: "
                f"{'; '.join(_said(pod) for pod in pods) or 'no pod was made. Is the Dask operator running?'}"
            )
        time.sleep(2)
        pods = list(Pod.list(namespace=profile.namespace, label_selector=labels))
    ready = next(pod for pod in pods if pod.ready())
    with ready.portforward(remote_port=PORT) as port:
        yield int(port)


def _said(pod: Any) -> str:
    """Why a pod is not running, as Kubernetes reports it."""
    status = dict(pod.status)
    waits = [one.get("state", {}).get("waiting", {}) for one in status.get("containerStatuses", [])]
    causes = [f"{wait.get('reason', '')} {wait.get('message', '')}".strip() for wait in waits if wait]
    causes += [one.get("message", "") for one in status.get("conditions", []) if one.get("status") == "False"]
    return f"{pod.name} is {status.get('phase', 'unknown')} ({'; '.join(filter(None, causes)) or 'no reason given'})"


#: Module and class of each provider, and what it calls the region, the machine and the container image.
CLASSES = {
    "aws": ("aws", "EC2Cluster", "region", "instance_type"),
    "azure": ("azure", "AzureVMCluster", "location", "vm_size"),
    "gcp": ("gcp", "GCPCluster", "zone", "machine_type"),
    "digitalocean": ("digitalocean", "DropletCluster", "region", "size"),
    "hetzner": ("hetzner", "HetznerCluster", "location", "server_type"),
    "openstack": ("openstack", "OpenStackCluster", "region", "size"),
}
#: Options with credentials: they belong into the files of the provider.
SECRETS = ("token", "password", "secret", "credential", "access_key")
#: Options that dlcca sets.
OURS = ("security", "n_workers", "docker_image", "worker_options", "scheduler_options", "env_vars", "protocol")


@contextmanager
def cloud_client(profile: Cloud, say: Say) -> Iterator[Any]:
    """A client whose workers are machines of a cloud; all machines are removed at the end of the block."""
    options, kind = cloud_options(profile), provider_class(profile)
    refuse_unknown(kind, profile)
    try:
        started = kind(**options)
    except Exception as error:  # each provider raises errors of its own
        raise ClusterError(
            f"{profile.provider} does not start the scheduler: {type(error).__name__}: {error}. Are you logged in, and "
            "do region, machine and [options] exist?"
        ) from error
    with started as cluster, Client(cluster, timeout="60s") as client:
        if profile.is_adaptive:
            cluster.adapt(minimum=profile.jobs(profile.fewest), maximum=profile.jobs(profile.most))
        else:
            cluster.scale(profile.jobs(profile.fewest))
        if profile.fewest and not await_workers(client, 1, profile.start_wait_min):
            raise ClusterError(
                f"no machine gave a worker within start_wait_min = {profile.start_wait_min:g} minutes; look at the "
                f"machines in the console of {profile.provider}: can they fetch {profile.image}?"
            )
        yield client


def provider_class(profile: Cloud) -> Any:
    module, name, *_ = CLASSES[profile.provider]
    package = f"dask-cloudprovider[{profile.provider}]"
    with needs(package, "cloud", f" '{package}'"):
        return getattr(import_module(f"dask_cloudprovider.{module}"), name)


def cloud_options(profile: Cloud) -> dict[str, Any]:
    """The options of the provider's class."""
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
    """An error for an option that the provider's class does not have, before machines are started."""
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
