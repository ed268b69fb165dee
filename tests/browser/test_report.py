"""The report in a real browser: drawn, linked, read by pointer and by keys, at a desk and on a telephone."""

from pathlib import Path

import numpy as np
import pytest

from dlcca import demo
from dlcca.report import figures, overview, page
from tests.report.stores import night, slow, stored
from tests.report.test_comparison import made

pytestmark = pytest.mark.slow

DESK, TELEPHONE = 1280, 390
#: The points that are selected, and those that lie in an interval of time or in a frame of the map.
CHOSEN = "() => Array.from(dlcca.chosen.keys()).filter(i => dlcca.chosen[i])"
#: How many colours a canvas shows; 1 if nothing is drawn.
COLOURS = """canvas => {
    const image = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const seen = new Set(new Uint32Array(image.data.buffer));
    return seen.size;
}"""


@pytest.fixture(scope="session")
def demo_report(folder) -> Path:
    """The report of the demonstration."""
    return demo.run(folder / "demo", lambda text: None).report


@pytest.fixture(scope="session")
def long_report(folder) -> Path:
    """The report of a night of a million rows, with the stages of sleep as what is known of it."""
    n = 1_000_000
    found = night(n, landmarks=3000)
    store = stored(folder / "night.zarr", found)
    stage = np.array(["wake", "light", "deep"])[np.clip(np.round(1 - slow(found.time)), 0, 2).astype(int)]
    path = folder / "night.html"
    compared = made()
    overviewed = overview.of_store(str(store), known={"stage of sleep": stage}, also=compared.rows)
    page.write(path, page.render(overviewed, title="A night", compared=compared))
    return path


@pytest.fixture
def reports(demo_report, long_report) -> dict[str, Path]:
    return {"demo": demo_report, "long": long_report}


def drag(shown, start, end) -> None:
    """With the pointer, in a few steps, as a hand does it."""
    shown.page.mouse.move(*start)
    shown.page.mouse.down()
    for share in (0.3, 0.6, 1.0):
        shown.page.mouse.move(*(a + share * (b - a) for a, b in zip(start, end, strict=True)))
    shown.page.mouse.up()


def box_of(shown, selector):
    place = shown.page.locator(selector)
    place.scroll_into_view_if_needed()
    return place.bounding_box()


def settled(shown) -> None:
    """Whatever was asked to be redrawn has been."""
    shown.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def picture(shown, name: str) -> str:
    settled(shown)
    return shown.page.locator(f"#{name}").evaluate("canvas => canvas.toDataURL()")


@pytest.mark.each_value
@pytest.mark.parametrize("width", [DESK, TELEPHONE])
@pytest.mark.parametrize("name", ["demo", "long"])
def test_a_report_opens_without_complaint_and_draws_everything(reports, opened, name, width):
    with opened(reports[name], width) as shown:
        settled(shown)
        for canvas in ("map", "line"):
            assert shown.page.locator(f"#{canvas}").evaluate(COLOURS) > 10
        drawn = "all => all.map(s => [s.getBoundingClientRect().height, s.querySelectorAll('path').length])"
        sizes = shown.page.eval_on_selector_all("figure:not(.still) svg", drawn)
        assert len(sizes) >= 5
        assert all(height > 80 and paths > 5 for height, paths in sizes)
        assert shown.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        shown.shot(f"{name}-{width}")
        assert shown.errors == []
        assert shown.requests == []


def test_narrow_figures_leave_no_hole_beside_them(folder, opened):
    svg, wide = '<svg viewBox="0 0 10 5"></svg>', (True, False, True, False, True)
    panels = [figures.Panel(str(i), "", svg, is_wide) for i, is_wide in enumerate(wide)]
    path = folder / "panels.html"
    page.write(path, page.render(night(300), known=panels))
    tops = "Array.from(document.querySelector('.panels').children, each => each.getBoundingClientRect().top)"
    with opened(path, DESK) as shown:
        found = shown.page.evaluate(tops)
        assert found[0] < found[1] == found[3] < found[2] < found[4]
    with opened(path, TELEPHONE) as shown:
        found = shown.page.evaluate(tops)
        assert found == sorted(found)


@pytest.mark.parametrize("width", [DESK, TELEPHONE])
def test_what_is_selected_in_time_is_marked_on_the_map(long_report, opened, width):
    with opened(long_report, width) as shown:
        before = picture(shown, "map")
        box = box_of(shown, "#line")
        y = box["y"] + 40
        drag(shown, (box["x"] + 0.4 * box["width"], y), (box["x"] + 0.6 * box["width"], y))
        chosen = shown.page.evaluate(CHOSEN)
        low, high = shown.page.evaluate("dlcca.interval")
        time = shown.page.evaluate("Array.from(dlcca.data.time)")
        known = shown.page.evaluate("Array.from(dlcca.data.coordinates[0], v => !Number.isNaN(v))")
        assert chosen == [i for i, t in enumerate(time) if low <= t <= high and known[i]]
        assert 0.1 * len(time) < len(chosen) < 0.35 * len(time)
        assert picture(shown, "map") != before
        assert "Selected in time" in shown.page.locator("#chosen").inner_text()
        shown.shot(f"selected-in-time-{width}")
        shown.page.locator("#clear").click()
        assert shown.page.evaluate(CHOSEN) == []
        assert shown.errors == []


def test_what_is_selected_on_the_map_is_marked_in_time(long_report, opened):
    with opened(long_report) as shown:
        box = box_of(shown, "#map")
        settled(shown)
        before = picture(shown, "line")
        drag(
            shown,
            (box["x"] + 0.5 * box["width"], box["y"] + 4),
            (box["x"] + box["width"] - 4, box["y"] + 0.4 * box["height"]),
        )
        chosen = shown.page.evaluate(CHOSEN)
        first = shown.page.evaluate("Array.from(dlcca.data.coordinates[0])")
        assert chosen
        assert all(first[i] > 0 for i in chosen)  # the right half of the map
        assert shown.page.evaluate("dlcca.interval") is None
        assert picture(shown, "line") != before
        assert "Selected on the map" in shown.page.locator("#chosen").inner_text()
        shown.page.mouse.move(0, 0)
        shown.shot("selected-on-the-map")


def test_pointing_at_a_row_tells_its_time_and_values(long_report, opened):
    with opened(long_report) as shown:
        box = box_of(shown, "#map")
        settled(shown)
        i = 2000
        x, y = shown.page.evaluate(f"[dlcca.map.x[{i}], dlcca.map.y[{i}]]")
        shown.page.mouse.move(box["x"] + x, box["y"] + y)
        tip = shown.page.locator("#map-tip")
        assert tip.is_visible()
        there = shown.page.evaluate("dlcca.cursor")
        told = tip.inner_text()
        assert told.splitlines()[0].startswith(shown.page.evaluate(f"dlcca.moments.exact(dlcca.data.time[{there}])"))
        value = shown.page.evaluate(f"dlcca.data.coordinates[0][{there}]")
        assert float(told.split("coordinate 1: ")[1].split()[0].replace("−", "-")) == pytest.approx(value, rel=1e-3)
        box = box_of(shown, "#line")
        shown.page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 50)
        assert shown.page.locator("#line-tip").is_visible()
        assert not tip.is_visible()
        assert "coordinate 2" in shown.page.locator("#line-tip").inner_text()
        shown.shot("pointing", full=False)


def test_figures_tell_their_values_too(demo_report, opened):
    with opened(demo_report) as shown:
        figure = shown.page.locator("figure:has(script.reading)")
        assert figure.count() == 2
        for i, words in ((0, "local correlation"), (1, "Hz")):
            figure.nth(i).locator("svg").hover(position={"x": 200, "y": 100})
            told = figure.nth(i).locator(".tip").inner_text()
            assert words in told
            figure.nth(i).locator("svg").focus()
            shown.page.keyboard.press("ArrowRight")
            assert figure.nth(i).locator(".tip").inner_text() != told
        shown.shot("reading", full=False)


def test_every_control_is_reached_and_works_by_keys(long_report, opened):
    with opened(long_report) as shown:
        page = shown.page
        controls = "#explorer select, #explorer button, #explorer input[type=range]"
        wanted = page.eval_on_selector_all(controls, "all => all.map(e => e.id)")
        reached = []
        for _ in range(60):
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.id || document.activeElement.name"))
        hidden = {"axis-z", "turn", "tilt"}  # of three dimensions only
        assert set(wanted) - hidden <= set(reached)
        page.locator("#moment").focus()
        before = page.locator("#reading").inner_text()
        for _ in range(3):
            page.keyboard.press("PageUp")
        assert page.locator("#reading").inner_text() != before
        assert "coordinate 1" in page.locator("#moment").get_attribute("aria-valuetext")
        page.locator("#similar").focus()
        page.keyboard.press("Enter")
        assert len(page.evaluate(CHOSEN)) > 100
        page.locator("#from").focus()
        page.keyboard.press("PageUp")
        assert page.evaluate("dlcca.interval")[0] > page.evaluate("dlcca.moments.first")
        page.keyboard.press("Escape")
        assert page.evaluate(CHOSEN) == []


def test_the_map_is_turned_in_space(long_report, opened):
    with opened(long_report) as shown:
        shown.page.get_by_label("in space, 3-D").check()
        before = picture(shown, "map")
        box = box_of(shown, "#map")
        drag(shown, (box["x"] + 200, box["y"] + 200), (box["x"] + 320, box["y"] + 240))
        turned = picture(shown, "map")
        assert turned != before
        shown.page.locator("#turn").focus()
        shown.page.keyboard.press("ArrowRight")
        assert picture(shown, "map") != turned
        shown.page.get_by_label("selects").check()
        drag(shown, (box["x"] + 20, box["y"] + 20), (box["x"] + 300, box["y"] + 300))
        assert shown.page.evaluate(CHOSEN)
        shown.shot("in-space", full=False)
        assert shown.errors == []


def test_points_are_coloured_by_channels_and_by_what_is_known(long_report, opened):
    with opened(long_report) as shown:
        color = shown.page.locator("#color")
        assert color.locator("optgroup").evaluate_all("all => all.map(g => g.label)") == [
            "What is known", "Channels of eeg", "Channels of ecg",
        ]  # fmt: skip
        by_time = picture(shown, "map")
        color.select_option(label="stage of sleep")
        assert shown.page.locator("#legend li").all_inner_texts() == ["deep", "light", "wake"]
        by_stage = picture(shown, "map")
        shown.shot("coloured-by-label", full=False)
        option = color.locator("optgroup").nth(1).locator("option").first
        assert "EEG1, R² 1.00" in option.inner_text()
        color.select_option(label=option.inner_text())
        assert len({by_time, by_stage, picture(shown, "map")}) == 3
        shown.page.get_by_label("show the landmarks").check()
        shown.shot("coloured-by-channel", full=False)


@pytest.mark.parametrize(
    ("name", "scheme", "width"),
    [
        ("demo", "light", DESK),
        ("demo", "dark", TELEPHONE),
        ("long", "light", TELEPHONE),
        ("long", "dark", DESK),
    ],
)
def test_nothing_serious_keeps_anyone_out(reports, opened, name, scheme, width):
    with opened(reports[name], width, color_scheme=scheme) as shown:
        shown.page.get_by_label("in space, 3-D").check()  # every control there is
        settled(shown)
        assert shown.keeps_out() == []
        shown.shot(f"{name}-{scheme}-{width}")


def test_it_is_read_without_scripts(demo_report, opened):
    with opened(demo_report, java_script_enabled=False) as shown:
        assert not shown.page.locator("#explorer").is_visible()
        pictures = shown.page.locator("figure svg")
        assert all(pictures.nth(i).is_visible() for i in range(pictures.count()))
        assert shown.page.get_by_text("The rows in their common coordinates").is_visible()
        assert "share one variable" in shown.page.locator("h1").inner_text()
        shown.shot("without-scripts")


def test_it_prints_with_all_figures_and_without_controls(demo_report, opened):
    with opened(demo_report) as shown:
        shown.page.emulate_media(media="print")
        assert not shown.page.locator("#explorer").is_visible()
        assert shown.page.get_by_text("The rows in their common coordinates").is_visible()
        shown.shot("printed")
        assert shown.page.pdf(format="A4").startswith(b"%PDF")


def test_names_cannot_smuggle_anything_into_the_page(folder, opened):
    evil = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
    found = night(300, landmarks=60, views={evil: 6, "b": 6}, warnings=[evil])
    path = folder / "evil.html"
    known = {evil: np.full(300, evil)}
    page.write(path, page.render(overview.of_store(str(stored(folder / "evil.zarr", found)), known=known), title=evil))
    with opened(path) as shown:
        said = []
        shown.page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        shown.page.locator("#color").select_option(index=1)
        settled(shown)
        assert shown.page.locator("img").count() == 0
        assert said == []
        assert shown.errors == []
        assert shown.page.evaluate("dlcca.coloring.labels[0]") == evil
