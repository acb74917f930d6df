"""The report's page in a real headless Chromium: every filter, every link, the keyboard, a phone, a large page."""

from __future__ import annotations

import os
import shutil
from urllib.parse import parse_qs

import pytest
from made_up import error, value, write
from test_report import HOSTILE, MANY, large

from conformance import evidence, matrices
from conformance.report import page
from conformance.report.collect import collect

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: apt-get install chromium")
# Playwright's own loop leaves sockets to the collector; they are none of the page's.
pytestmark = [pytestmark, pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")]


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Chromium refuses its sandbox to root, as whom CI runs in a container.
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, chromium_sandbox=os.geteuid() != 0)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A page of four runs, one of them of a kept device record, with something of every status."""
    folder = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence, "EVIDENCE", folder / "evidence")
        results = folder / "results"
        recording = {"driver": {"kind": "recording", "version": "12.9"}, "device": None}
        old = [value(s) for s in MANY] + [error()]
        new = [value(s, linker="_Linker", milliseconds={"complete": 9.0}) for s in MANY[2:]]
        wrong = value(MANY[0], status="differs", reason=HOSTILE, outcome={"kind": "error", "phase": "add", "type": "X", "bases": ["x.X"], "message": HOSTILE, "digest": None})
        skipped = value(MANY[1], status="skipped", outcome=None, evidence=None, reason="needs a device: why", image=None)
        extended = value("options/extended", profile="extended", status="deviates", reason="known (unreported)")
        write(results, "cuda12-ctypes", "0.18.1", old, **recording)
        write(results, "cuda12-ctypes", "0.20.1", old, **recording)
        write(results, "cuda12-nvidia", "0.20.1", [wrong, skipped, *new, error(), extended], **recording)
        write(folder / "evidence" / "h200", "cuda12-nvidia", "0.20.1", [value(MANY[0]), value(MANY[1]), *new, error()])
        path = folder / "index.html"
        path.write_bytes(page.page(collect(matrices.load(), results)).encode("utf-8", "replace"))
    return path


@pytest.fixture
def show(browser, file):
    """Opens the page at an address; whatever it says on the console fails the test."""
    said, contexts = [], []

    def show(fragment="", path=file, **options):
        context = browser.new_context(**{"viewport": {"width": 1300, "height": 900}, **options})
        contexts.append(context)
        tab = context.new_page()
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda fault: said.append(str(fault)))
        tab.on("request", lambda request: said.append(request.url) if not request.url.startswith(("file:", "data:")) else None)
        tab.goto(path.as_uri() + fragment)
        return tab

    yield show
    for context in contexts:
        context.close()
    assert said == []


def shown(tab) -> str:
    return tab.locator("#shown").inner_text()


def fragment(tab) -> dict:
    return {k: v[0] for k, v in parse_qs(tab.url.partition("#")[2]).items()}


EVERYTHING = "4 of 4 runs, 32 of 32 scenarios"
FILTERS = {
    "cuda": ("cuda13", "0 of 4 runs"),
    "binding": ("ctypes", "2 of 4 runs"),
    "pynvjitlink": ("absent", "4 of 4 runs"),
    "mvc": ("on", "0 of 4 runs"),
    "linker": ("cuda-core", "2 of 4 runs"),
    "release": ("0.18.1", "1 of 4 runs"),
    "driver": ("device", "1 of 4 runs"),
    "source": ("h200", "1 of 4 runs"),
    "verdict": ("failure", "1 of 4 runs"),
    "profile": ("core", "4 of 4 runs, 31 of 32 scenarios"),
    "status": ("differs", "1 of 32 scenarios"),
}


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_filters_and_stands_in_the_address(show, name):
    chosen, says = FILTERS[name]
    tab = show()
    assert shown(tab) == EVERYTHING
    tab.locator(f"#filters [name={name}]").select_option(chosen)
    assert says in shown(tab) and fragment(tab) == {name: chosen}
    # The same view from its address alone, as a colleague opens it.
    other = show("#" + tab.url.partition("#")[2])
    assert shown(other) == shown(tab) and other.locator(f"#filters [name={name}]").input_value() == chosen
    for kind in ("#matrix", "#linkers"):
        runs = other.locator(f"{kind} a[data-run]:visible").count()
        assert runs == int(says.split()[0]) if "runs" in says else runs == 4
    # At once, not a moment later: pressed and read in one go.
    clear = other.get_by_role("button", name="Clear")
    assert clear.evaluate("button => { button.click(); return document.getElementById('shown').textContent; }") == EVERYTHING
    assert fragment(other) == {} and other.locator(f"#filters [name={name}]").input_value() == ""


def test_every_filter_is_tried(show):
    names = show().locator("#filters select").evaluate_all("all => all.map(f => f.name)")
    assert sorted(names) == sorted(FILTERS)


def test_scenarios_are_found_by_their_names_and_by_disagreement(show):
    tab = show()
    tab.get_by_label("scenario contains").fill(MANY[0])
    assert shown(tab).endswith(", 1 of 32 scenarios") or "of 32" in shown(tab)
    tab.get_by_label("scenario contains").fill("no such")
    assert shown(tab).endswith(" 0 of 32 scenarios")
    assert "Nothing passes" in tab.locator("#heat").inner_text()
    tab.get_by_label("scenario contains").fill("")
    tab.get_by_label("only scenarios that runs disagree on").check()
    assert shown(tab).endswith(" 2 of 32 scenarios") and fragment(tab) == {"apart": "1"}


def test_a_family_opens_into_scenarios_and_a_scenario_into_what_was_observed(show):
    tab = show()
    family = MANY[0].split("/")[0]
    tab.locator(f"#heat th button[data-family={family}]").click()
    assert fragment(tab)["open"] == family
    row = tab.locator("#heat tr.scenario").filter(has_text=MANY[0].partition("/")[2]).first
    row.locator("button.differs").click()
    dialog = tab.locator("dialog")
    assert dialog.is_visible() and "<img src=x" in dialog.inner_text() and tab.locator("dialog img").count() == 0
    assert f"--scenario {MANY[0]}" in dialog.inner_text()
    other = show("#" + tab.url.partition("#")[2])
    assert other.locator("dialog").is_visible()
    tab.keyboard.press("Escape")
    assert not dialog.is_visible() and "scenario" not in fragment(tab)
    tab.go_back()


def test_the_heat_map_is_walked_with_arrow_keys(show):
    tab = show()
    first = tab.locator("#heat tbody td button[tabindex='0']")
    first.focus()
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowDown")
    label = tab.evaluate("document.activeElement.getAttribute('aria-label')")
    assert "cuda12-ctypes@0.20.1" in label
    assert tab.locator("#heat tbody td button[tabindex='0']").count() == 1
    tab.keyboard.press("Enter")
    assert fragment(tab)["open"] == label.split(",")[0]
    assert tab.evaluate("document.activeElement.getAttribute('aria-label')") == label


def test_two_runs_side_by_side(show):
    tab = show()
    tab.locator("[name=a]").select_option("cuda12-ctypes@0.20.1")
    tab.locator("[name=b]").select_option("cuda12-nvidia@0.20.1")
    first = tab.locator("#sides tbody tr").first
    assert "breaking" in first.inner_text() and "a value became X in phase add" in first.inner_text()
    first.locator("summary").click()
    first.locator("button[data-scenario]").first.click()
    assert tab.locator("dialog .sides > div").count() == 2
    tab.locator("dialog button.close").click()
    tab.get_by_role("button", name="Swap").click()
    assert fragment(tab) == {"a": "cuda12-nvidia@0.20.1", "b": "cuda12-ctypes@0.20.1"}
    assert "X in phase add became a value" in tab.locator("#sides").inner_text()


def test_the_migration_of_two_releases(show):
    tab = show("#from=0.18.1&to=0.30.4")
    tab.get_by_label("settings contain").fill("binding=0")
    says = tab.locator("#changes").inner_text()
    assert "CtypesLinker" in says and "_Linker over nvjitlink" in says and "matrices/" in says
    assert fragment(tab) == {"from": "0.18.1", "to": "0.30.4", "settings": "binding=0"}
    tab.locator("[name=to]").select_option("0.18.1")
    assert tab.locator("#changes").inner_text().startswith("0 of ")


def test_every_link_within_the_page_arrives(show):
    tab = show("#release=0.20.1")
    links = tab.locator("a[href^='#']:visible")
    targets = links.evaluate_all("all => [...new Set(all.map(a => a.getAttribute('href')))]")
    assert len(targets) > 12
    for target in targets:
        # The one that skips to the content comes into sight with the focus only.
        tab.locator(f"a[href={target!r}]:visible").first.press("Enter")
        if "=" in target:
            assert tab.locator("dialog").is_visible()
            tab.keyboard.press("Escape")
        else:
            assert fragment(tab)["at"] == target[1:] and fragment(tab)["release"] == "0.20.1"
            assert tab.evaluate(f"document.activeElement.closest('[id]').id === {target[1:]!r} || document.activeElement.id === {target[1:]!r}")


@pytest.mark.parametrize("width", [500, 1300])
def test_what_is_arrived_at_is_not_hidden_by_the_filters(show, width):
    tab = show("#at=findings", viewport={"width": width, "height": 900})
    for target in ("findings", "matrix"):
        tab.locator(f"nav a[href='#{target}']").press("Enter")
        assert tab.evaluate(f"document.elementFromPoint(40, document.getElementById('{target}-title').getBoundingClientRect().bottom - 3).id") == f"{target}-title"


def test_a_plain_anchor_opens_what_hides_its_target(show):
    tab = show("#finding-files-are-read-once")
    assert tab.locator("#finding-files-are-read-once pre").first.is_visible()


@pytest.mark.parametrize("options", [{"viewport": {"width": 360, "height": 740}, "is_mobile": True}, {}])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_accessible_and_does_not_scroll_sideways(show, options, scheme):
    from axe_playwright_python.sync_playwright import Axe

    family = MANY[0].split("/")[0]
    tab = show(f"#open={family}", color_scheme=scheme, **options)
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    found = Axe().run(tab).response["violations"]
    assert [(v["id"], v["nodes"][0]["html"][:200]) for v in found] == []


def test_it_prints(show):
    tab = show()
    assert tab.pdf(format="A4", landscape=True).startswith(b"%PDF")
    tab.emulate_media(media="print")
    assert not tab.locator("#filters").is_visible() and tab.locator("#matrix table").is_visible()


def test_a_large_page_opens_in_one_go(show, tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "EVIDENCE", tmp_path / "evidence")
    path = tmp_path / "large.html"
    path.write_bytes(large(tmp_path / "results").encode("utf-8", "replace"))
    tab = show(path=path)
    assert shown(tab) == "102 of 102 runs, 300 of 300 scenarios"
    # No time is asserted, for machines differ; it is printed for who looks (pytest -s).
    print(f"\nlarge page: {path.stat().st_size} bytes, ready after {tab.evaluate('performance.now()'):.0f} ms")
