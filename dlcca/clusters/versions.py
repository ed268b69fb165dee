"""Whether workers run the same packages as we do: tasks are sent by name, and another version may do another thing."""

from __future__ import annotations

from typing import Any

from dlcca.errors import ClusterError

#: Packages whose versions must be equal; of Python the first two numbers.
EXACT = ("dlcca", "dask", "distributed")
MINOR = ("python", "numpy", "zarr", "scipy", "cloudpickle", "msgpack")


def differences(client: Any) -> list[str]:
    """What workers have otherwise than we, one sentence for each worker and package."""
    found = client.get_versions(check=False, packages=["dlcca", "zarr", "scipy"])
    ours = _numbers(found["client"])
    told = []
    for address, facts in found["workers"].items():
        if facts is None:
            told.append(f"the worker at {address} does not say what it runs")
            continue
        theirs = _numbers(facts)
        for name in (*EXACT, *MINOR):
            if _compared(name, theirs.get(name)) != _compared(name, ours.get(name)):
                has = theirs.get(name) or "not at all"
                told.append(f"the worker at {address} has {name} {has}, and here it is {ours.get(name)}")
    return told


def refuse_others(client: Any) -> None:
    """End here rather than in the middle of a run that workers of another version would do wrongly."""
    told = [text for text in differences(client) if any(f" has {name} " in text for name in (*EXACT, "python"))]
    if told:
        raise ClusterError(
            f"{told[0]}{f' (and {len(told) - 1} more like it)' if len(told) > 1 else ''}. Install the same versions "
            "for the workers: python, setup or image in the cluster file say which environment they run in."
        )


def _numbers(facts: dict[str, Any]) -> dict[str, str]:
    """Version by package, Python among them."""
    packages = dict(facts.get("packages", {}))
    return {name: str(number).split(".final")[0] for name, number in packages.items() if number is not None}


def _compared(name: str, number: str | None) -> Any:
    if number is None:
        return None
    return number if name in EXACT else tuple(number.split(".")[:2])
