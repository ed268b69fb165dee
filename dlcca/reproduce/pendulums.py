"""Section VII-B: movies of coupled pendulums, clean and with a private pendulum in each."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from dlcca import simulate
from dlcca.errors import Untrusted
from dlcca.estimator import LocalCCA
from dlcca.fitting.in_memory import fit_views
from dlcca.reproduce import figures, measures
from dlcca.reproduce.figures import Marks
from dlcca.reproduce.measures import ALTERNATING, KERNEL, LINEAR, MAPS, Spectrum, correlation, spectrum
from dlcca.reproduce.results import Plate, Row, Section, at_least, at_most
from dlcca.settings.fit import Settings
from dlcca.views import checked

N = 400
SWINGS = (2.0, 4.0)
#: Frames that are shown of each movie.
FRAMES = (0, 24, 80)
LOCAL = "local CCA"
LITERAL, RIDGED = "Algorithm 2 as printed", "Algorithm 2 (ridge 0.03)"
#: Those of the paper's figures, in its order.
COMPARED = (MAPS, KERNEL, ALTERNATING, LOCAL)

TITLE = "VII-B. Coupled pendulums"
TEXT = (
    f"Two movies of {N} frames show one of two coupled pendulums each, which swing by at most ±2 or ±4 pixels. In the "
    "movies with private pendulums each shows another one too, on its own. Windows of 8 frames, every option of "
    "LocalCCA at its default. Algorithm 2 as printed has no regularisation: 8 frames of 200 channels then make all "
    "local correlations 1, and nothing private is filtered out. |corr| is that of the first coordinate."
)


@dataclass(frozen=True)
class Case:
    """One pair of movies, and the first coordinate (n,) that each method finds in it."""

    swing: float
    private: bool
    truth: simulate.Truth
    found: dict[str, NDArray]

    @property
    def name(self) -> str:
        return f"±{self.swing:g} px, {'private pendulums' if self.private else 'clean'}"

    @property
    def marks(self) -> list[Marks]:
        """The frequencies of the pendulums, Hz."""
        hertz = self.truth.omega / (2 * np.pi)
        coupled = ("coupled pendulums", figures.RED, hertz[:2])
        return [coupled, ("private pendulums", figures.GREEN, hertz[2:])] if self.private else [coupled]

    def spectrum(self, method: str) -> Spectrum:
        return spectrum(self.found[method], 1 / (self.truth.time[1] - self.truth.time[0]))

    def follows(self, method: str) -> float:
        """|corr| with the coupled pendulum of movie 1."""
        return correlation(self.found[method], self.truth.z)

    def leaks(self, method: str) -> float:
        """|corr| with the private pendulum of movie 1."""
        return correlation(self.found[method], self.truth.nuisance[0])

    def row(self, method: str, expected: str = "reported", met: bool | None = None) -> Row:
        """Both correlations, as far as there is a private pendulum."""
        what, got = "|corr| with the pendulum", f"{self.follows(method):.3f}"
        if self.private:
            what, got = "|corr| with pendulum / private", f"{got} / {self.leaks(method):.3f}"
        return Row(f"VII-B {self.name}: {method}, {what}", expected, got, met)


def run(say: Callable[[str], None] = print) -> Section:
    """Every method on every pair of movies."""
    cases = []
    for swing in SWINGS:
        for private in (False, True):
            cases.append(solve(swing, private))
            say(f"{TITLE}, {cases[-1].name}: |corr| {cases[-1].follows(LOCAL):.3f}")
    return Section(TITLE, TEXT, [row for case in cases for row in rows(case)], draw(cases))


def solve(swing: float, private: bool) -> Case:
    """Simulate one pair of movies and run all methods on it."""
    views, truth = simulate.pendulums(N, swing=swing, private=private, random_state=0)
    found = {method: measures.first_coordinate(method, views) for method in measures.METHODS}
    found[LOCAL] = LocalCCA(random_state=0).fit_transform(views)[:, 0]
    found[LITERAL] = as_printed(views, ridge=0)
    found[RIDGED] = as_printed(views, ridge=0.03)
    return Case(swing, private, truth, found)


def as_printed(views: list[NDArray], *, ridge: float) -> NDArray:
    """First coordinate (n,) by the paper's normalisation and bandwidth; a ridge of 0 is degenerate, and shows it."""
    settings = Settings.from_options(ridge=ridge, normalization="paper", bandwidth="median")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Untrusted)
        return fit_views(checked(views), settings, 0, allow_degenerate=True).embedding[:, 0]


def rows(case: Case) -> list[Row]:
    name, follows = f"VII-B {case.name}", case.follows(ALTERNATING)
    spectrum, hertz = case.spectrum(LOCAL), case.truth.omega[:2] / (2 * np.pi)
    wanted, peaks = (" and ".join(f"{f:.2f}" for f in some) for some in (hertz, measures.highest_peaks(spectrum, 2)))
    near = f"{wanted} Hz, ± {spectrum.bin_width:.1f} (one bin)"
    found = at_least(f"{name}: local CCA, |corr| with the pendulum", case.follows(LOCAL), 0.97)
    at_peaks = Row(f"{name}: local CCA, two highest peaks", near, f"{peaks} Hz", measures.peaks_at(spectrum, hertz))
    forgets = Row(f"{name}: {ALTERNATING}, |corr| with the pendulum", "< 0.5", f"{follows:.3f}", follows < 0.5)
    if not case.private:
        others = [case.row(method) for method in (KERNEL, LINEAR, LITERAL, RIDGED)]
        return [found, at_peaks, case.row(MAPS), forgets, *others]
    private = at_most(f"{name}: local CCA, |corr| with the private one", case.leaks(LOCAL), 0.15)
    # One movie is enough when nothing else is in it; a private pendulum takes the coordinate over.
    taken = case.row(MAPS, "private above pendulum", case.leaks(MAPS) > case.follows(MAPS))
    fails = case.follows(LITERAL) < 0.5 or case.leaks(LITERAL) > 0.5
    literal = case.row(LITERAL, "fails: pendulum < 0.5 or private > 0.5", fails)
    others = [case.row(method) for method in (KERNEL, LINEAR, RIDGED)]
    return [found, private, at_peaks, taken, forgets, literal, *others]


def draw(cases: list[Case]) -> list[Plate]:
    plates = []
    for swing in SWINGS:
        pair, size = [case for case in cases if case.swing == swing], f"{swing:g}"
        pictures = {f"{c.name}\nmovie {v + 1}": c.truth.movies[v][list(FRAMES)] for c in pair for v in range(2)}
        frames = figures.frames(pictures, [f"t = {pair[0].truth.time[frame]:.2f} s" for frame in FRAMES], 1.2)
        plates.append(Plate(f"pendulum_frames_{size}px.png", f"Three frames of each movie, swing ±{size} px.", frames))
        caption = f"Fourier transforms of the first coordinate, swing ±{size} px. "
        caption += "Red: the coupled pendulums' frequencies; green: the private ones'."
        plates.append(Plate(f"pendulum_spectra_{size}px.png", caption, draw_spectra(pair, COMPARED)))
    caption = "What regularisation does: Algorithm 2 as printed, with a ridge, and with the balanced normalisation too."
    ridged = draw_spectra([case for case in cases if case.private], (LITERAL, RIDGED, LOCAL))
    return [*plates, Plate("pendulum_ridge.png", caption, ridged)]


def draw_spectra(cases: list[Case], methods: tuple[str, ...]) -> Figure:
    """A column for each pair of movies, a row for each method."""
    grid = [{f"{method}; {case.name}": (case.spectrum(method), case.marks) for case in cases} for method in methods]
    return figures.spectra(grid, unit="Hz", highest=6)
