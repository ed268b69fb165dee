"""What dlcca imports is what it declares, and the versions that it is tested with are within the declared bounds."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.test_layers import ROOT, imports

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
#: Extras for users, in which an import inside a function may be declared; the others are for development.
FOR_USERS = [name for name in EXTRAS if name not in ("dev", "docs", "release", "test")]


def declared(requirements: list[str]) -> set[str]:
    """Distributions that requirements name, those of other extras of dlcca included."""
    found = set()
    for requirement in map(Requirement, requirements):
        if requirement.name == "dlcca":
            found |= {name for extra in requirement.extras for name in declared(EXTRAS[extra])}
        else:
            found.add(canonicalize_name(requirement.name))
    return found


def imported(root: Path) -> Iterator[tuple[str, str]]:
    """Every package that dlcca imports, by name, and where; also those that a reader or a client asks for by name."""
    for path in sorted((root / "dlcca").rglob("*.py")):
        where = path.relative_to(root)
        module = ".".join(where.with_suffix("").parts)
        source = path.read_text(encoding="utf-8")
        for found in imports(source, module, is_package=path.name == "__init__.py"):
            yield found.name.split(".")[0], f"{where}:{found.line}"
        for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
            named = call.args[0] if call.args else None
            if ast.unparse(call.func) == "optional" and isinstance(named, ast.Constant):
                yield named.value.split(".")[0], f"{where}:{call.lineno}"


def missing(root: Path, always: set[str], in_extras: set[str]) -> list[str]:
    """Imports of distributions that are not declared, one sentence each."""
    by_package = packages_distributions()
    found = []
    for package, where in imported(root):
        if package in sys.stdlib_module_names or package == "dlcca":
            continue
        names = {canonicalize_name(name) for name in by_package.get(package, [package])}
        if not names & (always | in_extras):
            found.append(f"{where} imports {package}, and pyproject.toml does not declare {' or '.join(sorted(names))}")
    return sorted(set(found))


def test_every_import_is_declared():
    in_extras = {name for extra in FOR_USERS for name in declared(EXTRAS[extra])}
    assert not missing(ROOT, declared(PROJECT["dependencies"]), in_extras)


def test_an_import_that_is_not_declared_is_found(tmp_path):
    (tmp_path / "dlcca").mkdir()
    (tmp_path / "dlcca" / "x.py").write_text("def f():\n    import numba\n\n    return optional('kr8s.objects', 'x')\n")
    found = missing(tmp_path, {"numpy"}, {"s3fs"})
    assert [line.split(",")[0] for line in found] == ["dlcca/x.py:2 imports numba", "dlcca/x.py:4 imports kr8s"]


def constraints() -> dict[str, str]:
    """The version that each distribution is tested with."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line.split("#")[0].strip() for line in lines]
    return {canonicalize_name(name): version for name, _, version in (pin.partition("==") for pin in pins if pin)}


@pytest.mark.parametrize("extra", ["", *EXTRAS])
def test_the_tested_versions_are_within_the_declared_bounds(extra):
    pinned = constraints()
    for requirement in map(Requirement, EXTRAS[extra] if extra else PROJECT["dependencies"]):
        name = canonicalize_name(requirement.name)
        if name == "dlcca":
            continue
        assert name in pinned, f"{name} is not in constraints.txt"
        assert requirement.specifier.contains(pinned[name]), f"{requirement} is not met by {name}=={pinned[name]}"
