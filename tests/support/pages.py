"""Tables that a command writes into a page of the documentation."""

from pathlib import Path

END = "<!-- end of the table -->"


def write_table(page: Path, begin: str, text: str) -> None:
    """Put a table between the line ``begin`` of a page and the next `END`."""
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{begin}\n\n{text}\n\n{END}{after}", encoding="utf-8")
