"""The page of a pipeline in a real browser, and the reports that it leads to."""

from pathlib import Path

import pytest

from dlcca.pipelines import page
from tests.pipelines.nights import pipeline_file, recorded, run_night

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def nightly(folder) -> Path:
    """The page after three nights, in the last of which a file was broken."""
    place = folder / "laboratory"
    file = pipeline_file(place, more='\n[outputs]\npage = "page.html"\n')
    for night in (1, 2):
        recorded(place, night)
        run_night(file, night)
    (place / "incoming" / "broken.edf").write_bytes(b"not a recording")
    run_night(file, 3)
    page.update_reports(file, lambda text: None)
    return place / "page.html"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_page_of_a_pipeline_opens_without_complaint(nightly, opened, width, scheme):
    with opened(nightly, width, color_scheme=scheme) as shown:
        heights = shown.page.eval_on_selector_all("svg", "all => all.map(svg => svg.getBoundingClientRect().height)")
        assert heights
        assert min(heights) > 80
        assert shown.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert "broken.edf" in shown.page.locator("main").inner_text()
        assert shown.keeps_out() == []
        shown.shot(f"nightly-{width}")
        assert (shown.errors, shown.requests) == ([], [])


def test_the_page_leads_to_the_report_of_the_model_by_keys_alone(nightly, opened):
    with opened(nightly) as shown:
        shown.page.locator('a[href*="model-0001"]').first.focus()
        shown.page.keyboard.press("Enter")
        shown.page.wait_for_url("**/model-0001.html")
        shown.page.locator("#map").wait_for()
        assert "views" in shown.page.locator("h1").inner_text()
        shown.shot("model-of-a-pipeline")
        assert shown.errors == []
