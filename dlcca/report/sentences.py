"""Text of a report: what was found in plain sentences, measures with their meaning, and numbers as text."""

from collections.abc import Iterator, Mapping, Sequence

from dlcca.report.overview import Overview
from dlcca.trust.quality import LINEAR_NOTE

_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
#: Between groups of three digits; narrow, and without a line break.
_THIN = "\u202f"
#: What the views are tested against, by its name in the store.
SURROGATES = {"shifted": "the same views shifted in time", "speeds": "the same views at other speeds"}
#: Measures of trust by their names in the store: the name in the report, and the meaning.
MEANINGS = {
    "trusted": ("trusted", "no check has given a reason for doubt"),
    "decidable": ("decidable", "recording and neighborhoods are large enough to tell common from chance"),
    "p_common": ("p-value", "of the hypothesis that the views share nothing; common below 0.05"),
    "common_against": ("surrogates", "what the views are tested against: the same views, shifted or at other speeds"),
    "common_by_chance": ("correlation of surrogates", "squared correlation of views that share nothing"),
    "common_strength": ("strength beyond chance", "of the leading common direction, at the typical landmark, 0 to 1"),
    "pairs_common": ("pairs that share", "numbers of views that share something two by two, but not all together"),
    "landmarks_common": ("significant landmarks", "share of the landmarks that are significant by themselves"),
    "top_correlation": ("largest correlation", "between the views, at the typical landmark"),
    "null_edge": ("largest by chance", "correlation that independent views would hardly ever exceed there"),
    "landmarks_above_edge": ("landmarks above chance", "share of the landmarks whose correlation exceeds that"),
    "effective_neighbors": ("effective neighbours", "independent samples in a neighborhood"),
    "rank": ("directions of a neighborhood", "that are used, for each view, at the typical landmark"),
    "radius": ("radius of a neighborhood", "for each view, at the typical landmark"),
    "leading_eigenvalue": ("leading eigenvalue", "1, but for rounding"),
    "pieces": ("connected components", "of the kernel; one is needed"),
    "far_rows": ("far rows", "share of the rows that are far from every landmark"),
    "landmarks_seen": ("landmarks per row", "with weight in the kernel, typically; too few, or all, would be wrong"),
    "half_landmarks_r2": ("R² with half of the landmarks", "of each coordinate, from a fit with every other landmark"),
    "from_halves": ("reproduced on half of the samples", "share of each coordinate on which fits to two halves agree"),
    "linear_cca_r2": ("R² of linear CCA", "held-out R² of the coordinates from as many variates of plain linear CCA"),
    "eigengap": ("gap after the last coordinate", "relative difference to the next eigenvalue"),
    "independent_coordinates": ("independent coordinates", "those that are no function of earlier ones"),
    "carriers": ("concentration", "share of the rows that have half of the variance of each coordinate"),
    "neighbor_recall": ("recall of neighbours", "share of the true ones that the approximate search finds"),
}
#: Longer lists of numbers are not shown in the table of measures.
MOST_NUMBERS = 12


def linear_cca(found: Overview) -> list[str]:
    """That plain linear CCA gives other coordinates; where it gives the same, a note of the fit says so already."""
    r2, notes = found.quality.get("linear_cca_r2"), found.quality.get("notes", [])
    if r2 is None or found.n_common == 0 or any(note.startswith(LINEAR_NOTE) for note in notes):
        return []
    explained = f"as many of its variates explain R² = {r2:.2f} of these on average"
    return [f"Plain linear CCA gives other coordinates: {explained}."]


def headline(found: Overview) -> str:
    """What was found, in one plain sentence, without its full stop."""
    K = len(found.views)
    if K == 1:
        return f"One view, in {counted(found.q, 'coordinate', spelled=True)} of its own"
    if not decidable(found):
        return f"It is not yet known whether these {in_words(K)} views share anything"
    if found.n_common == 0:
        return f"Nothing common was found in these {in_words(K)} views"
    text = f"These {in_words(K)} views share {counted(found.n_common, 'variable', spelled=True)}"
    if found.warnings:
        return f"{text}, but do not trust this yet"
    when = found.strengths[0].strongest() if found.strengths and found.has_clock else None
    return text if when is None else f"{text}, strongest {found.time_axis.between(*when)}"


def explained(found: Overview) -> str:
    """The share of each view's variance that the coordinates explain; "" where it is not known."""
    shares = [(view.name, view.share) for view in found.channels if view.share is not None]
    if not shares or len(found.views) < 2 or found.n_common == 0 or not decidable(found):
        return ""
    first, *others = [f"{percent(share)} {{}} {name}" for name, share in shares]
    parts = listed([first.format("of the variance of"), *(other.format("of that of") for other in others)])
    return f"{'It explains' if found.n_common == 1 else 'They explain'} {parts}."


def evidence(found: Overview) -> str:
    """The numbers behind the headline; "" where there are none."""
    top, edge, share = (found.quality.get(name) for name in ("top_correlation", "null_edge", "landmarks_above_edge"))
    if len(found.views) == 1 or top is None or edge is None or share is None:
        return ""
    p, chance = found.quality.get("p_common"), found.quality.get("common_by_chance")
    if not decidable(found) and chance is not None and p is not None:
        return (
            "Surrogates, which are the same views shifted in time and share nothing, are nearly as correlated (squared "
            f"correlation {chance:.2f}) as views can be. Take a longer recording to be sure."
        )
    if not decidable(found):
        return (
            f"The neighborhoods are so small that independent views would reach a correlation of {edge:.2f} by "
            f"chance; these reach {top:.2f} at the typical landmark. Widen window or n_neighbors to be sure."
        )
    surrogates = SURROGATES.get(found.quality.get("common_against", ""), "views that share nothing")
    test = "" if p is None else f"Test for a common variable: p = {p:.2g} (surrogates: {surrogates}). "
    return test + (
        f"At {percent(share)} of {number(len(found.landmarks))} landmarks the views are correlated more than "
        f"independent views would be by chance: the correlation is {top:.2f} at the typical landmark, and chance "
        f"reaches {edge:.2f}."
    )


def reproduced(found: Overview) -> str:
    """How much of each coordinate fits to halves of the samples reproduce; "" where that is not known."""
    shares = shares_reproduced(found)
    if not shares:
        return ""
    parts = listed([f"{share:.2f} of coordinate {i + 1}" for i, share in enumerate(shares)])
    text = f"Fits to half of the samples reproduce {parts}."
    if len(found.views) > 1 and (found.n_common == 0 or not decidable(found)):
        text += " But nothing is known to be common: what is private to a view is reproduced as well."
    return text


def shares_reproduced(found: Overview) -> list[float]:
    """The share of each of the first coordinates that fits to halves reproduce; none where that is not known."""
    return [float(share) for share in found.quality.get("from_halves") or []][:4]


def decidable(found: Overview) -> bool:
    """Whether recording and neighborhoods are large enough to tell common from chance."""
    return bool(found.quality.get("decidable", True))


def sample_note(found: Overview) -> str:
    """Which of all rows are drawn, so that nobody takes a sample for the whole."""
    sample, runs = found.rows.sample, found.rows.stretches
    if len(sample.rows) >= found.n:
        return f"All {number(found.n)} rows are drawn."
    text = f"{number(len(sample.rows))} of {number(found.n)} rows are drawn as points, evenly over the recording and "
    lines = (
        f" Lines over time show the smallest and the largest value of all rows in each of {number(len(runs.begin))} "
        "stretches; spectra, counts and extremes are of all rows."
    )
    return f"{text}at landmarks.{lines if found.has_clock else ''}"


def measures(found: Overview) -> Iterator[tuple[str, ...]]:
    """Name, value and meaning of each measure in the order of `MEANINGS`; an unknown one keeps its name."""
    for name in dict.fromkeys((*MEANINGS, *found.quality)):
        value = found.quality.get(name)
        is_long = isinstance(value, Mapping) or (isinstance(value, list) and len(value) > MOST_NUMBERS)
        if value is None or is_long or name == "notes":
            continue
        called, meaning = MEANINGS.get(name, (name.replace("_", " "), ""))
        shown = [i + 1 for i in value] if name == "independent_coordinates" else value
        shown = [f"{u + 1} and {v + 1}" for u, v in value] if name == "pairs_common" else shown
        yield called, _text(shown), meaning


def _text(value: object) -> str:
    """A number, a list of them, a word or yes or no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_text(item) for item in value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def number(count: float) -> str:
    """A whole number, in groups of three digits."""
    return f"{count:,.0f}".replace(",", _THIN)


def in_words(count: int) -> str:
    return _WORDS[count] if 0 <= count < len(_WORDS) else number(count)


def counted(count: int, noun: str, *, spelled: bool = False) -> str:
    """A number of things, spelled out if it is small and that is wanted."""
    return f"{in_words(count) if spelled else number(count)} {noun}{'s' * (count != 1)}"


def listed(things: Sequence[str]) -> str:
    """Items with commas, and an "and" before the last."""
    if len(things) < 2:
        return "".join(things)
    return f"{', '.join(things[:-1])} and {things[-1]}"


def percent(share: float) -> str:
    """A share, without decimals unless it is small."""
    value = 100 * share
    return f"{value:.0f} %" if value >= 10 or value == 0 else f"{value:.2g} %"


def duration(seconds: float) -> str:
    """Seconds, in a unit that suits them."""
    if seconds < 0.01:
        return "0 s" if seconds <= 0 else "< 0.01 s"
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
