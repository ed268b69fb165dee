"""What came of a night, for people, for machines, and for the catalog."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from dlcca.pipelines.discover import Found
from dlcca.pipelines.listing import names_of

#: The end of a night by the worst that happened: storage before doubt before bad data.
STORAGE, DOUBT, DATA = 4, 5, 3


@dataclass
class Summary:
    """One night."""

    run: int = 0
    name: str = ""
    found: Found = field(default_factory=Found)
    done: list[str] = field(default_factory=list)  # paths
    refused: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    published: list[str] = field(default_factory=list)  # days
    alarms: list[str] = field(default_factory=list)  # sentences
    refit: dict[str, Any] | None = None
    model: int | None = None
    doubts: list[str] = field(default_factory=list)  # sentences: why the model is not trusted
    troubles: list[str] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)  # path -> why it is refused, held or failed
    tells_all: bool = False  # of what no earlier summary told of

    @property
    def exit_code(self) -> int:
        if self.failed or self.troubles:
            return STORAGE
        if self.alarms or self.held or self.doubts or (self.refit is not None and not self.refit["promoted"]):
            return DOUBT
        return DATA if self.refused or self.found.unreadable else 0

    @property
    def is_news(self) -> bool:
        return bool(self.done or self.published or self.refit or self.exit_code)

    def lines(self) -> list[str]:
        """The night in sentences."""
        found = self.found
        counts = {
            "new": found.new, "changed": found.changed, "the same as another": found.duplicates,
            "not complete yet": found.waiting, "unreadable": found.unreadable,
        }  # fmt: skip
        told = ", ".join(f"{len(paths)} {what}" for what, paths in counts.items() if paths)
        said = [f"{found.files} file{'s' * (found.files != 1)}: {told or 'nothing new'}."]
        if self.done:
            said.append(f"{len(self.done)} embedded with model {self.model}: {names_of(self.done)}.")
        if self.published:
            said.append(f"Published: {', '.join(self.published)}.")
        words = {"refused": "Refused", "held": "Held back", "failed": "Not done, and tried again next time"}
        for status, text in words.items():
            said += [f"{text}: {path}: {self.reasons.get(path, '')}" for path in getattr(self, status)]
        said += [f"Drift: {text}" for text in self.alarms]
        if self.refit is not None:
            said.append(self._told_refit())
        return said + self.doubts + self.troubles

    def _told_refit(self) -> str:
        assert self.refit is not None
        begun = f"Model {self.refit['version']} was fitted because {self.refit['because']}"
        if self.refit["promoted"]:
            return f"{begun}, and is in use now."
        return f"{begun}, and is not used: {'; '.join(self.refit['objections'])}."

    def document(self) -> dict[str, Any]:
        """The night for machines."""
        made = asdict(self)
        lines = self.lines()
        return {**made, "exit_code": self.exit_code, "news": self.is_news, "lines": lines, "text": "\n".join(lines)}
