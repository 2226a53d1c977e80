"""The HTML report in a real browser: drawn, silent, legible, and deaf to what guests say."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from hypertare.base import figures
from hypertare.base.errors import MachineError
from hypertare.report import html
from hypertare.report.html import TERMS
from hypertare.report.model import Report
from hypertare.report.page import write
from tests import factory
from tests.report.browser import PAYLOADS, Page
from tests.report.conftest import read

pytestmark = pytest.mark.runs


@pytest.fixture(scope="module")
def file(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("html") / "report.html"
    write(html.render(report), path)
    return path


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of a run in which everything that can be text is an attack."""
    attack = " ".join(PAYLOADS)
    script = factory.Script(
        blocks=4,
        cells=(
            {"workload": "build", "evil": "n" + attack},
            {"workload": "build", "evil": "m" + attack},
            {"workload": "rtt"},
        ),
        variants=("native", "guest virtio-net", f"guest x{attack}"),
        study=attack,
        question=attack,
        failure=attack,
        console=(attack, attack),
        text=attack,
        warnings=(attack,),
        fail=frozenset({5}),
    )
    path = tmp_path_factory.mktemp("hostile") / "report.html"
    write(html.render(read(factory.write(path.parent / "run", script))), path)
    return path


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of long names, in words and without a blank, and of many columns."""
    factor, nic = (
        "workloads.tcp.message_of_the_sender",
        "guest e1000-with-every-offload-switched-off",
    )
    script = factory.Script(
        blocks=4,
        cells=(
            {"workload": "build"},
            *({"workload": "tcp", factor: f"{size}-kilobytes-each"} for size in (4, 1024)),
        ),
        variants=("native", "container", "guest virtio-net", nic, f"guest {'x' * 70}"),
        factors={factor: [f"{size}-kilobytes-each" for size in (4, 1024)]},
        warnings=("w" * 300,),
        question="Q" * 200,
    )
    path = tmp_path_factory.mktemp("wide") / "report.html"
    write(html.render(read(factory.write(path.parent / "run", script))), path)
    return path


def test_every_chart_is_drawn_without_a_word_or_a_request(page: Page, file: Path) -> None:
    page.open(file)
    assert page.drawn() == 23
    marks = page.run(
        "return [...document.querySelectorAll('[data-chart]')].map((chart) =>"
        " chart.querySelectorAll('svg .mark-symbol path, svg .mark-line path, svg .mark-rect path')"
        ".length)"
    )
    assert min(marks) > 0
    assert page.messages() == []
    asked = page.requests()
    assert asked == [file.as_uri()] or set(asked) <= {file.as_uri(), "data:,"}


def test_every_trial_is_a_point(page: Page, file: Path, report: Report) -> None:
    page.open(file)
    page.drawn()
    count = page.run(
        "return document.querySelector('[data-chart=cell0r0]')"
        ".querySelectorAll('.mark-symbol.role-mark path').length"
    )
    expected = [p for p in report.points if p.cell == "build" and p.response == "elapsed"]
    assert count == len(expected)


def test_charts_have_tables_with_the_same_figures(page: Page, file: Path, report: Report) -> None:
    page.open(file)
    charts = page.driver.find_elements(By.CSS_SELECTOR, "[data-chart]")
    rows = page.run(
        "return [...document.querySelectorAll('table.estimates tbody tr')].map((r) => r.innerText)"
    )
    assert len(rows) == len(report.summary.estimates)
    for chart in charts:
        title = page.driver.find_element(By.ID, chart.get_attribute("aria-labelledby") or "")
        assert title.text
        assert chart.get_attribute("role") in ("img", "graphics-document")
        own = page.run("return arguments[0].nextElementSibling", chart)
        assert own.get_attribute("class") == "data"
        if own.tag_name == "p":
            target = own.find_element(By.TAG_NAME, "a").get_attribute("href").partition("#")[2]
            assert page.driver.find_element(By.ID, target).tag_name == "table"


def test_the_table_of_every_trial_has_a_column_for_each_response(
    page: Page, file: Path, report: Report
) -> None:
    page.open(file)
    head, *rows = page.run(
        "return [...document.querySelectorAll('#cell0-trials tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    assert head[:6] == ["trial", "platform", "block", "boot", "kind", "elapsed"]
    points = report.points_of("build", "elapsed")
    assert [row[:2] for row in rows] == [[str(p.trial), p.platform] for p in points]
    assert [row[5] for row in rows] == [figures.quantity(p.value, "s", digits=5) for p in points]
    assert all(len(row) == len(head) for row in rows)


def test_a_click_opens_the_table_of_every_trial(page: Page, file: Path) -> None:
    page.open(file)
    table = page.driver.find_element(By.ID, "cell0-trials")
    assert not table.is_displayed()
    page.driver.find_element(By.CSS_SELECTOR, "a[href='#cell0-trials']").click()
    WebDriverWait(page.driver, 10).until(lambda _: table.is_displayed())


def test_the_page_says_everything(page: Page, file: Path, report: Report) -> None:
    page.open(file)
    text = page.run("return document.body.innerText")
    for sentence in (*report.answers, *report.verdicts, *report.remarks):
        assert sentence.text in text
    for wanted in (
        "the guest panicked",
        "Attempted to kill init!",
        "powersave",
        "AMD EPYC 7B13",
        "QEMU 7.2.9",
        "hypertare run first-look --seed 7",
        "no difference shown",
    ):
        assert wanted in text


def test_words_of_experiments_are_explained_below_the_verdict_that_has_them(
    page: Page, file: Path
) -> None:
    page.open(file, unfolded=False)
    explained = page.run(
        "return [...document.querySelectorAll('.terms b')].map((e) => e.innerText)"
    )
    said = page.run(
        "const copy = document.querySelector('#verdict').cloneNode(true);"
        "copy.querySelectorAll('.terms, .data, .chart').forEach((e) => e.remove());"
        "return copy.textContent"
    )
    header = page.run("return document.querySelector('header').innerText")
    for term in TERMS:
        if re.search(rf"\b{term}s?\b", said):
            assert term in explained
        assert not re.search(rf"\b{term}s?\b", header)
    assert {"block", "noise floor"} <= set(explained) < set(TERMS)


def assert_no_scrolling_sideways(page: Page, width: int) -> None:
    assert page.run("return document.documentElement.scrollWidth") <= width
    wide = page.run(
        "return [...document.querySelectorAll('[data-chart] svg')]"
        ".filter((svg) => svg.getBoundingClientRect().right > innerWidth + 1).length"
    )
    assert wide == 0


def test_the_narrowest_window_needs_no_scrolling_sideways(page: Page, file: Path) -> None:
    page.open(file, 320)
    page.drawn()
    assert_no_scrolling_sideways(page, 320)


@pytest.mark.parametrize("width", [390, 768, 1300])
@pytest.mark.parametrize("which", ["file", "wide"])
def test_nothing_is_wider_than_its_box(
    page: Page, which: str, width: int, request: pytest.FixtureRequest
) -> None:
    """Nor than the page; neither a table in what scrolls, nor a word in a column, nor what a chart says in
    its picture.
    """
    page.open(request.getfixturevalue(which), width)
    page.drawn()
    assert_no_scrolling_sideways(page, width)
    page.run("document.querySelectorAll('details').forEach((d) => (d.open = true))")
    page.drawn()
    assert page.run("return document.querySelectorAll('.wide table').length") > 15
    # What is folded away is fitted when its event comes, after the last script.
    with suppress(TimeoutException):
        WebDriverWait(page.driver, 10).until(lambda _: page.run(_TOO_WIDE) == [])
    assert page.run(_TOO_WIDE) == []


def test_a_window_that_narrows_fits_its_tables_again(page: Page, wide: Path) -> None:
    page.open(wide, 1300)
    page._size(400, 900)
    WebDriverWait(page.driver, 10).until(
        lambda _: page.run("return document.querySelectorAll('.stacked').length") > 0
    )
    named = page.run(
        "const table = document.querySelector('.stacked');"
        "return [[...table.tHead.rows[0].cells].slice(1).map((cell) => cell.textContent),"
        "[...table.tBodies[0].rows[0].cells].slice(1).map((cell) => cell.dataset.column)]"
    )
    assert named[0] == named[1] and len(named[0]) > 1
    page._size(1300, 900)
    fewer = "return document.querySelectorAll('#environment .stacked').length"
    WebDriverWait(page.driver, 10).until(lambda _: page.run(fewer) == 0)


_TOO_WIDE = """
const found = [];
for (const e of document.querySelectorAll('body *')) {
  if (e.closest('svg') || !e.checkVisibility() || getComputedStyle(e).display === 'inline') continue;
  if (e.clientWidth && e.scrollWidth > e.clientWidth + 1)
    found.push([e.tagName, e.className, e.scrollWidth, e.clientWidth, e.textContent.slice(0, 40)]);
}
for (const svg of document.querySelectorAll('[data-chart] svg')) {
  if (!svg.checkVisibility()) continue;
  const room = svg.getBoundingClientRect();
  for (const e of svg.querySelectorAll('text')) {
    const { left, right, width } = e.getBoundingClientRect();
    if (width && (left < room.left - 1 || right > room.right + 1))
      found.push([svg.closest('[data-chart]').dataset.chart, e.textContent, left, right]);
  }
}
return found;
"""


def test_dark_and_light_follow_the_system(page: Page, file: Path) -> None:
    page.open(file, dark=True)
    page.drawn()
    dark = _brightness(page)
    page.theme(dark=False)
    WebDriverWait(page.driver, 30).until(lambda _: _brightness(page)["label"] < 100)
    light = _brightness(page)
    assert dark["page"] < 60 < 200 < light["page"]
    assert dark["text"] > 200 > 60 > light["text"]
    assert dark["label"] > 200 > 60 > light["label"]
    assert page.messages() == []


def _brightness(page: Page) -> dict[str, float]:
    colours = page.run(
        "const label = document.querySelector('[data-chart=overview] .role-axis-label text');"
        "const body = getComputedStyle(document.body);"
        "return {page: body.backgroundColor, text: body.color,"
        " label: label ? getComputedStyle(label).fill : 'rgb(128, 128, 128)'}"
    )
    return {
        name: sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3
        for name, colour in colours.items()
    }


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out_enough(page: Page, file: Path, dark: bool) -> None:
    """Contrast of at least 4.5 to 1 (WCAG 2.1, success criterion 1.4.3)."""
    page.open(file, dark=dark)
    worst = page.run(_CONTRAST)
    assert worst["ratio"] >= 4.5, worst


_CONTRAST = """
const parse = (c) => c.match(/[\\d.]+/g).map(Number);
const luminance = (c) => {
  const [r, g, b] = c.slice(0, 3).map((v) => {
    v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = (e) => {
  for (; e; e = e.parentElement) {
    const c = parse(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c;
  }
};
let worst = {ratio: 99};
for (const e of document.querySelectorAll('main *, header *, footer')) {
  const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  if (!own || e.closest('svg') || !e.checkVisibility()) continue;
  const [a, b] = [luminance(parse(getComputedStyle(e).color)), luminance(behind(e))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < worst.ratio) worst = {ratio, text: e.textContent.slice(0, 60), class: e.className};
}
return worst;
"""


def test_attacks_stay_text(page: Page, hostile: Path) -> None:
    page.open(hostile)
    page.drawn()
    assert page.run("return window.pwned") is None
    assert page.run("return document.querySelectorAll('img[src=x], svg[onload]').length") == 0
    assert page.run("return document.querySelectorAll('script').length") == 3
    text = page.run("return document.body.textContent")
    for payload in PAYLOADS:
        assert payload in text
    assert page.messages() == []
    assert set(page.requests()) <= {hostile.as_uri(), "data:,"}


def test_attacks_stay_text_in_tooltips(page: Page, hostile: Path) -> None:
    page.open(hostile)
    page.drawn()
    points = page.driver.find_elements(
        By.CSS_SELECTOR, "[data-chart=cell0r0] .mark-symbol.role-mark path"
    )
    ActionChains(page.driver).move_to_element(points[-1]).perform()
    shown = page.driver.find_element(By.ID, "vg-tooltip-element")
    WebDriverWait(page.driver, 10).until(lambda _: "trial" in shown.text)
    assert page.run("return document.querySelectorAll('#vg-tooltip-element img').length") == 0
    assert page.run("return window.pwned") is None


def test_the_policy_stops_scripts_that_are_not_ours(page: Page, file: Path) -> None:
    page.open(file)
    page.run(
        "const s = document.createElement('script'); s.textContent = 'window.pwned = 1';"
        "document.body.append(s);"
        "const i = document.createElement('img'); i.src = 'http://127.0.0.1:9/x';"
        "document.body.append(i);"
    )
    assert page.run("return window.pwned") is None
    blocked = page.messages()
    assert any("script-src" in message for message in blocked)
    assert any("img-src" in message for message in blocked)


def test_without_scripts_there_are_tables(page: Page, file: Path) -> None:
    page.open(file)
    page.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page.driver.refresh()
        said = page.driver.find_element(By.CSS_SELECTOR, "noscript p")
        assert "the tables say the same" in said.text
        empty = page.driver.find_elements(By.CSS_SELECTOR, ".chart")
        assert empty and not any(chart.is_displayed() for chart in empty)
        page.driver.find_element(By.CSS_SELECTOR, "#verdict details.data summary").click()
        table = page.driver.find_element(By.CSS_SELECTOR, "#verdict details.data table")
        assert "guest e1000" in table.text
    finally:
        page.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.mark.parametrize("dark", [False, True])
def test_paper_has_what_is_unfolded_on_white(page: Page, file: Path, dark: bool) -> None:
    """Also what was never in view. The screen keeps its colours."""
    page.open(file, dark=dark)
    assert page.drawn() == 23
    # Looked at when all that the page does before printing is done.
    page.run(
        "addEventListener('beforeprint', () => (window.printed = "
        "[...document.querySelectorAll('[data-chart] svg')].map((svg) => "
        "getComputedStyle(svg.querySelector('.role-axis-label text')).fill)))"
    )
    page.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    labels = page.run("return window.printed")
    assert len(labels) == 23
    assert all(sum(map(int, re.findall(r"\d+", label)[:3])) / 3 < 60 for label in labels)
    WebDriverWait(page.driver, 30).until(lambda _: (_brightness(page)["label"] > 128) == dark)
    assert page.messages() == []


def test_nothing_is_cut_off_on_paper_and_no_section_is_a_title_alone(
    page: Page, file: Path
) -> None:
    """718 px is A4 within Chromium's margins."""
    page.open(file, 718)
    page.drawn()
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        seen = page.run(
            "return [...document.querySelectorAll('section')].filter((s) => s.checkVisibility())"
            ".map((s) => [s.id, s.scrollWidth > s.clientWidth + 1, "
            "[...s.querySelectorAll('h2 ~ *:not(.note, details:not([open]))')].length])"
        )
    finally:
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert {"verdict", "environment", "again"} <= {name for name, _, _ in seen}
    assert [one for one in seen if one[1] or not one[2]] == []


def test_a_folded_section_leaves_no_title_on_paper(page: Page, file: Path) -> None:
    page.open(file, 718, unfolded=False)
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        alone = page.run(
            "return [...document.querySelectorAll('section')].filter((s) => s.checkVisibility() &&"
            " ![...s.children].some((e) => !e.matches('h2, .note') && e.checkVisibility()))"
            ".map((s) => s.id)"
        )
    finally:
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert alone == []


def test_the_verdict_and_its_chart_stand_on_the_first_page(page: Page, file: Path) -> None:
    """718 x 1046 px is A4 within Chromium's margins."""
    page.open(file, 718, unfolded=False)
    page.drawn()
    page._size(718, 1046)
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        ends = page.run(
            "return document.querySelector('[data-chart=overview]').getBoundingClientRect().bottom"
        )
    finally:
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert ends < 1046


def test_charts_are_drawn_in_a_frame_in_which_nobody_scrolls(page: Page, file: Path) -> None:
    page.open(file, unfolded=False)
    page._size(400, 200)
    page.driver.refresh()
    assert page.drawn() == 23
    assert page.drawn_now() == 1, "the others are folded away"
    page.run("document.querySelectorAll('#cells, #cells details').forEach((d) => (d.open = true))")
    page.drawn()
    assert page.drawn_now() > 5


def test_at_the_width_of_a_phone_the_change_and_its_interval_are_in_sight(
    page: Page, file: Path
) -> None:
    page.open(file, 400)
    page.drawn()
    right = page.run(
        "return Math.max(...[...document.querySelectorAll('table.estimates td')]"
        ".filter((cell) => cell.checkVisibility()).map((cell) => cell.getBoundingClientRect().right))"
    )
    head = page.run("return document.querySelector('table.estimates thead').innerText")
    assert right <= 400
    assert "change" in head and "96.7 % interval" in head


def test_no_axis_of_what_is_never_negative_goes_below_nought(page: Page, file: Path) -> None:
    page.open(file)
    page.drawn()
    labels = page.run(
        "return [...document.querySelectorAll('[data-chart^=cell] .role-axis-label text')]"
        ".map((text) => text.textContent)"
    )
    assert labels and not [label for label in labels if label[:1] in "-−"]


def test_a_run_with_nothing_to_show(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write(
        html.render(
            read(factory.write(tmp_path / "run", factory.Script(cells=(), complete=False)))
        ),
        path,
    )
    page.open(path)
    assert page.drawn() == 0
    text = page.run("return document.body.innerText")
    assert "not complete" in text
    assert "No verdict" in text
    assert page.messages() == []


def test_a_run_in_which_all_failed(page: Page, tmp_path: Path) -> None:
    script = replace(factory.Script(2), fail=frozenset(range(200)))
    path = tmp_path / "report.html"
    write(html.render(read(factory.write(tmp_path / "run", script))), path)
    page.open(path)
    page.drawn()
    assert "natively already" in page.run("return document.body.innerText")
    assert page.messages() == []


def test_nothing_in_the_file_points_outside(file: Path) -> None:
    page = unescape(re.sub(r"<script>.*?</script>", "", file.read_text(), flags=re.S))
    assert not re.findall(r'(?:src|href)="(?!#|data:)', page)
    assert "@import" not in page and "url(" not in page
    assert "connect-src" not in page and "default-src 'none'" in page


def test_the_file_is_written_whole_or_not_at_all(report: Report, tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(MachineError, match="cannot be written") as error:
        write(html.render(report), tmp_path / "taken" / "report.html")
    assert "--html" in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_a_page_of_thousands_of_trials_is_small(tmp_path: Path) -> None:
    script = factory.Script(138, fail=frozenset())
    many = read(factory.write(tmp_path / "run", script))
    assert len(many.trials) >= 2750
    assert len(html.render(many).encode()) <= 2_500_000
