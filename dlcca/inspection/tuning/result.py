"""What a tuning found: the options, and the curves by which it decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dlcca.settings.fit import Settings


@dataclass(frozen=True)
class Curve:
    """One option: what was tried, what each was worth, and what was taken."""

    option: str
    candidates: tuple[Any, ...]
    criterion: tuple[float, ...]
    chosen: Any
    reason: str

    def lines(self) -> list[str]:
        """A line for each candidate, the chosen one marked."""
        return [
            f"  {self.option:<12} {value!s:<12} {worth:8.3f}{'  <- chosen' * (value == self.chosen)}"
            for value, worth in zip(self.candidates, self.criterion, strict=True)
        ]


@dataclass(frozen=True)
class Tuned:
    """Options that were chosen without any truth, as `dlcca.tune` finds them."""

    options: dict[str, Any]  # for LocalCCA(**options)
    curves: dict[str, Curve]  # by option
    rule: str  # the criterion, in words
    by_chance: float  # what views that share nothing reach with the chosen options
    rows: int  # that were looked at
    of_rows: int
    trials: int  # pairs of fits to halves
    cost: float  # about, in fits of the size that is tuned for

    @property
    def settings(self) -> Settings:
        return Settings.from_options(**self.options)

    def __str__(self) -> str:
        curves = self.curves.values()
        return "\n".join(
            [
                f"Options were tried on {self.rows} of {self.of_rows} rows, which cost about {self.cost:.1f} fits.",
                f"The criterion: {self.rule}",
                *(line for curve in curves for line in curve.lines()),
                *(f"{curve.option} = {curve.chosen!r}: {curve.reason}" for curve in curves),
            ]
        )

    def plot(self, option: str, ax: Any = None) -> Any:
        """The curve of one option on matplotlib axes, which are returned."""
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots()[1]
        curve = self.curves[option]
        labels = [str(value) for value in curve.candidates]
        ax.plot(labels, curve.criterion, "o-", color="0.4")
        at = curve.candidates.index(curve.chosen)
        ax.plot(labels[at : at + 1], curve.criterion[at : at + 1], "o", color="C3", label="chosen")
        ax.set_xlabel(option)
        ax.set_ylabel("criterion")
        ax.legend()
        return ax
