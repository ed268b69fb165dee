"""What the name of a channel says about it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

# A word in a label and the kind of channel it announces. EDF+ asks for the kind as the first word ("EEG Fpz-Cz"),
# PhysioNet and the makers of polysomnographs have names of their own. Kinds are spelt as MNE spells them where
# it has one. Words are matched whole, the first two of a label only: what comes later is a place or a remark.
_WORDS: tuple[tuple[str, str], ...] = (
    ("ecg", r"e[ck]g\d*|m?cl\d|ml?i{1,3}|i{1,3}|av[rlf]|v\d?"),
    ("eog", r"\w?eog\w?|[lr]oc|e[12]"),
    ("emg", r"emg\w*|chin\d*|[lr]?leg\d*"),
    ("eeg", r"eeg\w*|ep"),
    ("ecog", r"ecog\w*"),
    ("seeg", r"seeg\w*|ieeg\w*"),
    ("mag", r"meg"),
    ("ppg", r"pleth\w*|ppg\w*"),
    ("spo2", r"s[pa]o2\w*"),
    ("resp", r"resp\w*|airflow|flow|nasal|thor\w*|abdo?\w*|chest"),
    ("bp", r"abp|art|bp|cvp|pap|icp|nibp"),
    ("gsr", r"gsr|eda|scl|scr"),
    ("acc", r"acc\w*|actigraphy"),
    ("gyro", r"gyro?\w*"),
    ("temperature", r"temp\w*"),
    ("sound", r"sound|snore?|mic\w*"),
    ("light", r"light"),
    ("stim", r"stim|sti\d*|trig\w*|status|event|marker"),
)
_KINDS = [(kind, re.compile(rf"(?:{words})", re.IGNORECASE)) for kind, words in _WORDS]

# Electrodes of the 10-5 system and its references; "C3-M2" is C3 against M2.
_ELECTRODE = re.compile(
    r"(?:N|Fp|AFp|AFF?|F|FFC|FCC?|FF?T|FTT?|C|CCP|CPP?|T|TTP|TPP?|P|PPO|POO?|O|OI|I|A|M)(?:z|\d{1,2}h?)", re.IGNORECASE
)
_SOCKET = re.compile(r"[A-I]\d{1,2}")  # of an amplifier with one letter for each bundle of 16 or 32 electrodes
_CAP = 16  # so many sockets are a cap of electrodes; E1 and E2 alone are the eyes


def kind_of(label: str) -> str:
    """The kind of channel that a label announces, in lower case; empty where it announces none."""
    words = [word for word in re.split(r"[\s\-_:/.,()]+", label) if word]
    for word in words[:2]:
        for kind, pattern in _KINDS:
            if pattern.fullmatch(word):
                return kind
        if _ELECTRODE.fullmatch(word):
            return "eeg"
    return ""


def kinds_of(labels: Sequence[str]) -> list[str]:
    """The kind of each channel of a file, where many sockets together make a cap of electrodes."""
    cap = sum(bool(_SOCKET.fullmatch(label)) for label in labels) >= _CAP
    return ["eeg" if cap and _SOCKET.fullmatch(label) else kind_of(label) for label in labels]


def distinct(labels: Sequence[str]) -> tuple[list[str], list[str]]:
    """Labels of which no two are the same ("EMG", "EMG" become "EMG-0", "EMG-1"), and a note for each change."""
    counts = Counter(labels)
    names, seen = [], Counter[str]()
    taken = {label for label in labels if counts[label] == 1}
    for label in labels:
        name = label
        while counts[label] > 1 and (name == label or name in taken):
            name = f"{label}-{seen[label]}"
            seen[label] += 1
        taken.add(name)
        names.append(name)
    shared = [label for label in counts if counts[label] > 1]
    notes = [f"{counts[label]} channels are called {label!r}; they were numbered from {label}-0" for label in shared]
    return names, notes
