"""Which part of dlcca may import which: read from the source, held against one picture."""

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

ANYTHING = None

# The rooms of dlcca (packages and modules right under it), from the lowest to the highest, and what each may import. A
# room imports only rooms above it in this list, so that folders form a directed graph without a cycle.
PICTURE: dict[str, set[str] | None] = {
    "errors": set(),
    "views": {"errors"},
    "numerics": {"errors"},
    "settings": {"errors", "numerics"},
    "simulate": {"errors", "numerics"},
    "model": {"errors", "numerics"},
    "baselines": {"errors", "numerics", "settings", "views"},
    "trust": {"baselines", "errors", "model", "numerics", "settings", "views"},
    "storage": {"errors", "model", "settings"},
    "engine": {"errors", "numerics", "settings", "storage"},
    "clusters": {"errors", "settings", "storage"},
    "recordings": {"engine", "errors", "model", "numerics", "settings", "storage"},
    "fitting": {
        "clusters",
        "engine",
        "errors",
        "model",
        "numerics",
        "recordings",
        "settings",
        "storage",
        "trust",
        "views",
    },
    "report": {"errors", "numerics", "settings", "storage", "trust"},
    "plotting": {"errors", "report"},
    "estimator": {"errors", "fitting", "model", "numerics", "plotting", "settings", "storage", "trust", "views"},
    "inspection": {"errors", "estimator", "fitting", "model", "numerics", "settings", "trust", "views"},
    "compare": {"baselines", "engine", "errors", "fitting", "numerics", "report", "settings", "storage", "trust"}
    | {"views"},
    "export": {"errors", "storage"},
    "__init__": ANYTHING,
    "pipelines": ANYTHING,  # but the command line: see NEVER
    "reproduce": ANYTHING,  # likewise
    "demo": ANYTHING,  # likewise
    "cli": ANYTHING,
    "__main__": {"cli"},
}
NEVER = {"demo": {"cli"}, "pipelines": {"cli"}, "reproduce": {"cli"}}

# Parts that may use only these packages besides the standard library.
THIRD_PARTY = {"baselines": {"numpy", "scipy"}, "numerics": {"numba", "numpy", "pynndescent", "scipy", "threadpoolctl"}}

# Packages that take long to import, and the parts that must not do so before a function is called:
# `import dlcca` and `dlcca --help` would wait for them.
HEAVY = {"dask", "distributed", "matplotlib", "numba", "pynndescent", "scipy", "sklearn", "zarr"}
QUICK = {"__init__", "cli", "errors", "settings"}


@dataclass(frozen=True)
class Import:
    """One import of a full module name; `early` when it runs as soon as its file is imported."""

    name: str
    line: int
    early: bool


def imports(source: str, module: str, *, is_package: bool) -> Iterator[Import]:
    """Every import in a file, at any depth, relative ones resolved to full names."""
    package = module.split(".") if is_package else module.split(".")[:-1]

    def walk(node: ast.AST, early: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, early)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            prefix = [*base, *(node.module.split(".") if node.module else [])]
            for alias in node.names:
                yield Import(".".join([*prefix, alias.name]), node.lineno, early)
        elif isinstance(node, ast.Call) and _is_import_call(node):
            yield Import(node.args[0].value, node.lineno, early)
        elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for child in node.body:
                yield from walk(child, False)
            for child in node.orelse:
                yield from walk(child, early)
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            early = False
        for child in ast.iter_child_nodes(node):
            yield from walk(child, early)

    return walk(ast.parse(source), True)


def _is_import_call(call: ast.Call) -> bool:
    """Whether it is importlib.import_module("...") or __import__("...") of a full name."""
    return (
        ast.unparse(call.func).split(".")[-1] in {"import_module", "__import__"}
        and bool(call.args)
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, str)
        and not call.args[0].value.startswith(".")
    )


def violations(root: Path) -> list[str]:
    """What in root/dlcca does not fit the picture, one sentence each."""
    found = []
    paths = sorted((root / "dlcca").rglob("*.py"))
    parts = PICTURE.keys() | {_part_of(path, root) for path in paths}
    for path in paths:
        where = path.relative_to(root).as_posix()
        part = _part_of(path, root)
        if part not in PICTURE:
            found.append(f"{where}: '{part}' is not in the picture; add it to PICTURE in tests/test_layers.py")
            continue
        module = list(path.relative_to(root).with_suffix("").parts)
        is_package = module[-1] == "__init__"
        module = module[:-1] if is_package else module
        source = path.read_text(encoding="utf-8")
        for imported in imports(source, ".".join(module), is_package=is_package):
            found += [f"{where}:{imported.line}: {complaint}" for complaint in _complaints(part, imported, parts)]
    return list(dict.fromkeys(found))  # `from x import a, b` is one violation


def _part_of(path: Path, root: Path) -> str:
    return path.relative_to(root / "dlcca").with_suffix("").parts[0]


def _complaints(part: str, imported: Import, parts: set[str]) -> Iterator[str]:
    top, _, rest = imported.name.partition(".")
    if top == "dlcca":
        # A name that is no part, like LocalCCA, or dlcca itself, comes from dlcca/__init__.py.
        target = rest.split(".")[0] if rest.split(".")[0] in parts else "__init__"
        allowed = PICTURE[part]
        if target in NEVER.get(part, set()):
            yield f"{part} may not import {target}"
        elif allowed is not ANYTHING and target not in allowed | {part}:
            yield f"{part} may import only {sorted(allowed) or 'nothing'} of dlcca, not {target}"
        return
    if part in THIRD_PARTY and top not in THIRD_PARTY[part] | sys.stdlib_module_names:
        yield f"{part} may use only {sorted(THIRD_PARTY[part])}, not {top}"
    if part in QUICK and imported.early and top in HEAVY:
        yield f"{part} may import {top} only inside a function"


def test_imports_point_the_way_of_the_picture():
    assert violations(ROOT) == []


def circles(root: Path) -> list[list[str]]:
    """Modules of root/dlcca that import each other in a circle, also inside functions or for types only."""
    paths = {_module_of(path, root): path for path in (root / "dlcca").rglob("*.py")}
    known = {
        module: {
            name if name in paths else name.rpartition(".")[0]
            for imported in imports(path.read_text("utf-8"), module, is_package=path.name == "__init__.py")
            if (name := imported.name).startswith("dlcca.")
        }
        for module, path in paths.items()
    }
    sorter = graphlib.TopologicalSorter({module: names & paths.keys() - {module} for module, names in known.items()})
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        return [error.args[1]]
    return []


def _module_of(path: Path, root: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def test_no_modules_import_each_other_in_a_circle():
    assert circles(ROOT) == []


def test_a_circle_is_found_also_inside_a_function(tmp_path):
    (tmp_path / "dlcca").mkdir()
    (tmp_path / "dlcca" / "a.py").write_text("from dlcca import b\n")
    (tmp_path / "dlcca" / "b.py").write_text("def f():\n    from dlcca.a import g\n")
    assert circles(tmp_path)


def test_a_room_imports_only_rooms_above_it_in_the_picture():
    rooms = list(PICTURE)
    for place, (room, allowed) in enumerate(PICTURE.items()):
        assert allowed is ANYTHING or allowed <= {*rooms[:place]}, room


@pytest.mark.parametrize("module", ["dlcca", "dlcca.errors", "dlcca.settings.fit", "dlcca.cli"])
def test_heavy_packages_wait_until_they_are_needed(module):
    code = f"import sys, {module}; print(*sorted({HEAVY} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout.split(), run.stderr) == (0, [], "")


# The checker itself, on packages of one planted file.


def plant(root: Path, path: str, source: str) -> list[str]:
    file = root / "dlcca" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(source, encoding="utf-8")
    return violations(root)


@pytest.mark.parametrize(
    ("path", "source", "complaint"),
    [
        ("numerics/cca.py", "import dlcca.storage", "not storage"),
        ("numerics/cca.py", "from dlcca import settings", "not settings"),
        ("numerics/cca.py", "from ..storage.layout import Layout", "not storage"),
        ("numerics/cca.py", "from .. import storage", "not storage"),
        ("numerics/__init__.py", "from ..engine import kernel", "not engine"),
        ("numerics/deep/cca.py", "from ...engine import kernel", "not engine"),
        ("numerics/cca.py", "def f():\n    from dlcca.model import Model", "not model"),
        ("numerics/cca.py", "if TYPE_CHECKING:\n    from dlcca.model import Model", "not model"),
        ("numerics/cca.py", "import importlib\nimportlib.import_module('dlcca.model')", "not model"),
        ("numerics/cca.py", "import sklearn.neighbors", "not sklearn"),
        ("numerics/cca.py", "def f():\n    import dask.array as da", "not dask"),
        ("errors.py", "from .settings import Settings", "errors may import only nothing"),
        ("views.py", "from dlcca import LocalCCA", "not __init__"),
        ("views.py", "import dlcca", "not __init__"),
        ("engine/kernel.py", "from dlcca.fitting import Job", "not fitting"),
        ("reproduce/figures.py", "from dlcca import cli", "reproduce may not import cli"),
        ("cli/run.py", "import scipy.sparse", "only inside a function"),
        (
            "__init__.py",
            "try:\n    from dask import array\nexcept ImportError:\n    pass",
            "only inside a function",
        ),
        ("settings.py", "class A:\n    import zarr", "only inside a function"),
        ("helpers.py", "", "add it to PICTURE in tests/test_layers.py"),
        ("helpers/text.py", "", "add it to PICTURE in tests/test_layers.py"),
    ],
)
def test_a_planted_violation_is_found(tmp_path, path, source, complaint):
    (found,) = plant(tmp_path, path, source)
    assert found.startswith(f"dlcca/{path}:")
    assert complaint in found


@pytest.mark.parametrize(
    ("path", "source"),
    [
        (
            "numerics/cca.py",
            "import math, numpy as np, scipy.linalg\nfrom . import signs\nfrom ..errors import E",
        ),
        ("fitting/metric.py", "from dlcca.engine import work\nfrom dlcca.recordings.scaling import run"),
        ("reproduce/figures.py", "from dlcca import LocalCCA, baselines"),
        ("cli/run.py", "from dlcca import settings\ndef run():\n    import dask\n    from dlcca import fitting"),
        ("cli/run.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import dask"),
        ("__init__.py", "def __getattr__(name):\n    from .estimator import LocalCCA"),
    ],
)
def test_an_import_that_fits_is_left_alone(tmp_path, path, source):
    assert plant(tmp_path, path, source) == []


def test_a_package_that_is_not_there_yet_has_no_violations(tmp_path):
    assert violations(tmp_path) == []
