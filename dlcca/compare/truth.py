"""A known variable, phase or label of each row, and how well coordinates predict it."""

import csv
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, DlccaError, SettingsError, suggest
from dlcca.trust import scores

FOLDS = ("auto", "blocked", "random")
#: The score of each kind, for headings.
SCORES = {"value": "R²", "phase": "resultant", "label": "balanced accuracy"}


@dataclass(frozen=True)
class Truth:
    """One value for each row, NaN (or an empty label) where it is not known."""

    values: NDArray  # (n,)
    kind: str
    name: str

    @property
    def known(self) -> NDArray[np.bool_]:
        if self.values.dtype.kind in "US":
            return self.values != np.zeros((), self.values.dtype)
        return np.isfinite(self.values)

    @property
    def numbers(self) -> NDArray[np.float64]:
        """As numbers for colours and for storage: labels by their order, NaN where nothing is known."""
        found = np.full(len(self.values), np.nan)
        known = self.values[self.known]
        found[self.known] = np.unique(known, return_inverse=True)[1] if self.kind == "label" else known
        return found

    def at(self, rows: NDArray[np.int64]) -> Self:
        return replace(self, values=self.values[rows])

    def folds(self, how: str) -> NDArray[np.int64]:
        """The fold of each known row, "blocked" or "random"; of labels, each fold has a share of every one then."""
        known = self.values[self.known]
        return folds_of(known if self.kind == "label" else np.zeros(len(known)), how)

    def score(self, E: NDArray, fold: NDArray[np.int64]) -> float:
        """How well the truth is predicted from coordinates (n, q), in rows that are held out."""
        X, known = scores.at_unit_variance(E[self.known]), self.values[self.known]
        measure = {"value": scores.variable_score, "phase": scores.phase_score, "label": scores.label_score}
        return measure[self.kind](X, known, fold)

    @property
    def is_sorted(self) -> bool:
        """Whether a label occurs in one stretch only: with that stretch held out, it could not be predicted."""
        known = self.values[self.known]
        blocked = scores.blocked_folds(len(known))
        return self.kind == "label" and any(len(np.unique(blocked[known == label])) == 1 for label in np.unique(known))


def folds_of(strata: NDArray, how: str) -> NDArray[np.int64]:
    """The fold of each of n rows: stretches, or at random with an equal share of each stratum (n,)."""
    if how == "blocked":
        return scores.blocked_folds(len(strata))
    return scores.stratified_folds(strata, np.random.default_rng(0))


def truth_of_options(said: str | None, circular: bool, labels: bool, folds: str) -> Truth | None:
    """The truth that options of the command line name, or a `SettingsError` where they contradict each other."""
    if folds not in FOLDS:
        raise SettingsError(f"--folds {folds} is not known; {suggest(folds, FOLDS)}")
    if circular and labels:
        raise SettingsError("--circular and --labels: the truth is a phase or a label, not both.")
    if said is not None:
        return read_truth(said, "phase" if circular else "label" if labels else "value")
    if circular or labels:
        raise SettingsError(f"{'--circular' if circular else '--labels'} says of what kind --truth FILE is.")
    return None


def read_truth(said: str, kind: str, option: str = "--truth") -> Truth:
    """The truth in a file: ``FILE``, or ``FILE:NAME`` for an array of a .npz or a column of a .csv.

    ``option`` is the one of the command line that names it, for messages.
    """
    file, _, name = said.rpartition(":")
    if Path(said).is_file() or not file:  # a colon may also be a part of the file's own name
        file, name = said, ""
    path = Path(file)
    if not path.is_file():
        raise DataError(f"{option} {said}: there is no file {path}.")
    try:
        match path.suffix.lower():
            case ".npy":
                if name:
                    needed = f"a .npy file holds one array without a name; leave {name!r} out"
                    raise SettingsError(f"{option} {said}: {needed}.")
                values = np.load(path, allow_pickle=False)
            case ".npz":
                with np.load(path, allow_pickle=False) as content:
                    name = _one_of(name, list(content.keys()), f"{option} {path}")
                    values = content[name]
            case ".csv":
                values, name = _csv(path, name, f"{option} {path}")
            case _:
                raise SettingsError(f"{option} {path}: a file .npy, .npz or .csv is needed.")
    except DlccaError:
        raise
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{option} {said} cannot be read: {error}.") from error
    return Truth(_checked(np.squeeze(values), kind, f"{option} {said}"), kind, name or path.stem)


def _checked(values: NDArray, kind: str, where: str) -> NDArray:
    if values.ndim != 1:
        raise DataError(f"{where} has shape {values.shape}; one value for each row is needed.")
    if kind == "label":
        if values.dtype.kind == "b":
            return values.astype(np.int64)
        if values.dtype.kind not in "iufUS":
            raise DataError(f"{where} has dtype {values.dtype}; labels are numbers or texts.")
        return values
    if values.dtype.kind not in "iufb":
        raise DataError(f"{where} holds {values.dtype}; numbers are needed; for labels add --labels.")
    return values.astype(np.float64)


def _csv(path: Path, name: str, where: str) -> tuple[NDArray, str]:
    with open(path, newline="", encoding="utf-8-sig") as file:
        head, *rows = [row for row in csv.reader(file) if row] or [[]]
    name = _one_of(name, head, where)
    for number, row in enumerate(rows, start=2):
        if len(row) != len(head):
            raise DataError(f"{where}: line {number} has another number of fields than the header's {len(head)}.")
    texts = [row[head.index(name)].strip() for row in rows]
    try:
        return np.array([float(text) if text else np.nan for text in texts]), name
    except ValueError:
        return np.array(texts), name


def _one_of(name: str, known: list[str], where: str) -> str:
    """The name of an array: the given one, or the only one."""
    if name in known or (not name and len(known) == 1):
        return name or known[0]
    if name:
        raise SettingsError(f"{where} has no {name!r}; {suggest(name, known)}")
    raise SettingsError(f"{where} holds {', '.join(known) or 'nothing'}; say which, as FILE:{(known or ['NAME'])[0]}.")
