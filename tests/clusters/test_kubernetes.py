"""What Kubernetes is asked for, held against the schemas of the operator's own resources; no Kubernetes is needed."""

import base64
import functools
import re
from pathlib import Path

import dask_kubernetes
import jsonschema
import pytest
import yaml

from dlcca.clusters import cloud, keys
from dlcca.clusters.profile import included_folder, of, read
from dlcca.errors import SettingsError

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # half a megabyte of YAML
DEFINITION = "operator/deployment/helm/dask-kubernetes-operator/crds/daskcluster.yaml"


@functools.cache
def schema_of_cluster():
    """The schema by which Kubernetes checks a DaskCluster, from the operator's own files."""
    content = yaml.load((Path(dask_kubernetes.__file__).parent / DEFINITION).read_text(), Loader=LOADER)
    (version,) = [v for v in content["spec"]["versions"] if v["name"] == "v1"]
    return version["schema"]["openAPIV3Schema"]


def strict(schema):
    """The schema with unknown fields refused, as Kubernetes warns of them."""
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    made |= {key: {n: strict(v) for n, v in schema[key].items()} for key in ("properties",) if key in schema}
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        made.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string"):
        made = {"type": ["integer", "string"]}
    return made


@pytest.fixture
def profile():
    return read(included_folder() / "kubernetes.toml")


def check(manifest):
    schema = strict(schema_of_cluster())
    schema["properties"] |= {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {}}
    jsonschema.Draft202012Validator(schema).validate(manifest)


def test_the_cluster_fits_the_schema_of_the_operator(profile):
    check(cloud.cluster_manifest(profile, "dlcca-1"))


def test_the_schema_would_find_a_mistake(profile):
    manifest = cloud.cluster_manifest(profile, "dlcca-1")
    manifest["spec"]["worker"]["spec"]["volums"] = []
    with pytest.raises(jsonschema.ValidationError, match="volums"):
        check(manifest)


def test_every_option_fits_it_too():
    said = {"pull_secret": "p", "service_account": "s", "store_secret": "t", "namespace": "lab"}
    manifest = cloud.cluster_manifest(of({"kind": "kubernetes", "image": "i:1", "workers": 3, **said}), "a")
    check(manifest)
    worker = manifest["spec"]["worker"]["spec"]
    assert worker["imagePullSecrets"] == [{"name": "p"}]
    assert worker["serviceAccountName"] == "s"
    assert worker["containers"][0]["envFrom"] == [{"secretRef": {"name": "t"}}]
    assert manifest["metadata"]["namespace"] == "lab"


def test_pods_have_the_workers_and_the_memory_of_the_profile(profile):
    spec = cloud.cluster_manifest(profile, "dlcca-1")["spec"]
    assert spec["worker"]["replicas"] == 4  # 16 workers, 4 in each
    container = spec["worker"]["spec"]["containers"][0]
    assert container["resources"]["limits"]["memory"] == "17408Mi"
    assert container["resources"]["requests"]["cpu"] == "4"
    args = " ".join(container["args"])
    assert "tls://dlcca-1-scheduler.dlcca.svc.cluster.local:8786" in args
    assert "--nworkers 4 --nthreads 1 --memory-limit 4GiB" in args
    assert {"name": "OMP_NUM_THREADS", "value": "1"} in container["env"]


def test_scheduler_and_workers_speak_tls_with_keys_from_the_secret(profile, tmp_path):
    manifest = cloud.cluster_manifest(profile, "dlcca-1")
    for part in ("scheduler", "worker"):
        pod = manifest["spec"][part]["spec"]
        args = " ".join(pod["containers"][0]["args"])
        assert "--protocol tls" in args
        assert "--tls-key /run/dlcca-keys/key.pem" in args
        assert pod["volumes"][0]["secret"]["secretName"] == "dlcca-1"
    with keys.keys_of_run(tmp_path) as security:
        secret = cloud.secret_manifest(profile, "dlcca-1", security)
        written = Path(security.tls_worker_key).read_bytes()
    assert base64.b64decode(secret["data"]["key.pem"]) == written
    assert written.splitlines()[1].decode() not in str(manifest)


def test_bounds_are_refused_since_the_operator_would_scale_without_tls():
    profile = of({"kind": "kubernetes", "image": "i", "min_workers": 1, "max_workers": 2})
    with pytest.raises(SettingsError, match="set workers"):
        cloud.refuse_adaptive(profile)


def strangers(value, kind):
    """Fields of a resource that the API of Kubernetes does not have, by the models of its own client."""
    import kubernetes.client as models

    if match := re.fullmatch(r"list\[(.*)\]", kind):
        return [name for item in value for name in strangers(item, match[1])]
    if match := re.fullmatch(r"dict\(str, (.*)\)", kind):
        return [name for item in value.values() for name in strangers(item, match[1])]
    model = getattr(models, kind, None)
    if model is None:  # a text or a number
        return []
    fields = {public: own for own, public in model.attribute_map.items()}
    found = [name for name in value if name not in fields]
    for name in value.keys() & fields.keys():
        found += [f"{name}.{inner}" for inner in strangers(value[name], model.openapi_types[fields[name]])]
    return found


SITE = sorted((included_folder() / "kubernetes").glob("*.yaml"))


@pytest.mark.parametrize("file", SITE, ids=lambda file: file.stem)
def test_manifests_for_the_site_fit_the_api_of_kubernetes(file):
    pytest.importorskip("kubernetes", reason="the models of the API come with dask-kubernetes")
    for document in yaml.safe_load_all(file.read_text()):
        assert {"apiVersion", "kind", "metadata"} <= set(document)
        assert strangers(document, f"V1{document['kind']}") == []
        document["metadata"]["nmae"] = "x"
        assert strangers(document, f"V1{document['kind']}") == ["metadata.nmae"]
