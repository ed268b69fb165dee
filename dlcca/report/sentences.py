"""What was found, in plain sentences, built from what is known of a result."""

from __future__ import annotations

from dlcca.report.overview import Overview
from dlcca.report.words import few, in_words, listed, number, percent


def headline(found: Overview) -> str:
    """What was found, in one plain sentence, without its full stop."""
    K = len(found.views)
    if K == 1:
        return f"One view, in {few(found.q, 'coordinate')} of its own"
    if not decidable(found):
        return f"It cannot be told yet whether these {in_words(K)} views share anything"
    if found.n_common == 0:
        return f"Nothing common was found in these {in_words(K)} views"
    text = f"These {in_words(K)} views share {few(found.n_common, 'variable')}"
    if found.warnings:
        return f"{text}, but do not trust this yet"
    when = found.strengths[0].strongest() if found.strengths and found.has_clock else None
    return text if when is None else f"{text}, strongest {found.moments.between(*when)}"


def explained(found: Overview) -> str:
    """How much of each view is told by what was found; "" where that is not known."""
    shares = [(view.name, view.share) for view in found.channels if view.share is not None]
    if not shares or len(found.views) < 2 or found.n_common == 0 or not decidable(found):
        return ""
    first, *others = [f"{percent(share)} {{}} {name}" for name, share in shares]
    told = listed([first.format("of the variance of"), *(other.format("of that of") for other in others)])
    return f"{'It explains' if found.n_common == 1 else 'They explain'} {told}."


def evidence(found: Overview) -> str:
    """The numbers behind the headline, in one sentence; "" where there are none."""
    top, edge, share = (found.quality.get(name) for name in ("top_correlation", "null_edge", "landmarks_above_edge"))
    if len(found.views) == 1 or top is None or edge is None or share is None:
        return ""
    chance = found.quality.get("common_by_chance")
    if not decidable(found) and chance is not None and found.quality.get("p_common") is not None:
        return (
            "Shifted against each other in time, where they share nothing, these views are nearly as much alike "
            f"(squared correlation {chance:.2f}) as views can be. Take a longer recording to be sure."
        )
    if not decidable(found):
        return (
            f"The neighborhoods are so small that independent views would reach a correlation of {edge:.2f} by "
            f"chance; these reach {top:.2f} at the typical landmark. Widen window or n_neighbors to be sure."
        )
    p, against = found.quality.get("p_common"), found.quality.get("common_against")
    if p is not None:
        how = {"shifted": "the same views shifted in time", "speeds": "the same views at other speeds"}
        tested = f"Views that share nothing would look like these with p = {p:.2g}"
        tested += f", against {how[against]}. " if against in how else ". "
    else:
        tested = ""
    return tested + (
        f"At {percent(share)} of {number(len(found.landmarks))} landmarks the views move together more closely than "
        f"independent views would by chance: the correlation is {top:.2f} at the typical landmark, and chance "
        f"reaches {edge:.2f}."
    )


def comes_again(found: Overview) -> str:
    """How much of each coordinate comes again from halves of the rows; "" where that is not known."""
    shares = shares_again(found)
    if not shares:
        return ""
    told = listed([f"{share:.2f} of coordinate {i + 1}" for i, share in enumerate(shares)])
    text = f"When the fit is made from halves of the rows, {told} {'comes' if len(shares) == 1 else 'come'} again."
    if len(found.views) > 1 and (found.n_common == 0 or not decidable(found)):
        text += " But nothing is known to be common: what each view has for itself comes again as well."
    return text


def shares_again(found: Overview, most: int = 4) -> list[float]:
    """Of the first coordinates, how much comes again from halves of the rows; none where that is not known."""
    return [float(share) for share in found.quality.get("from_halves") or []][:most]


def decidable(found: Overview) -> bool:
    """Whether recording and neighborhoods are large enough to tell common from chance; of older runs it is taken so."""
    return bool(found.quality.get("decidable", True))


def drawn_of(found: Overview) -> str:
    """What of all rows is drawn, so that nobody takes a sample for the whole."""
    sample, runs = found.rows.sample, found.rows.stretches
    if len(sample.rows) >= found.n:
        return f"All {number(found.n)} rows are drawn."
    text = f"{number(len(sample.rows))} of {number(found.n)} rows are drawn as points, evenly over the recording and "
    text += "at landmarks."
    if found.has_clock:
        text += " Lines over time show the smallest and the largest value of all rows in each of "
        text += f"{number(len(runs.begin))} stretches; spectra, counts and extremes are of all rows."
    return text
