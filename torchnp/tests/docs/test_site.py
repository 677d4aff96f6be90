"""The built documentation site in a browser: navigation, filters, search, accessibility, screen sizes and links.

CONTRIBUTING.md has the command. ``TORCHNP_SITE`` names the built site; the browser is the machine's own chromium.
"""

import functools
import http.server
import os
import re
import shutil
import threading
from contextlib import closing
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest

from torchnp.tests.lookup.test_explain import QUESTIONS

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SITE = Path(os.environ.get("TORCHNP_SITE") or "no site")
READ = (  # pages for axe, which takes half a minute for the longest pages; these contain every kind of element
    "index.html", "ops/aten.var.html", "names/numpy.html", "names/torch.html", "names/python.html", "differences.html",
    "differences/ten.html", "search.html?q=ddof", "harness.html", "api.html", "report.html",
)  # fmt: skip
PAGES = (*READ, "ops/index.html", "ops/aten.add.html", "differences/reductions.html", "remote.html", "zoo.html")
PHONE = {"width": 390, "height": 844}
LARGEST = 1_000_000  # bytes of a page

pytestmark = pytest.mark.skipif(
    not (SITE / "index.html").is_file(), reason="TORCHNP_SITE names no built site (see CONTRIBUTING.md)"
)


# ---------------------------------------------------------------- the files


@functools.cache
def texts():
    """Return the pages by address, without the theme's templates."""
    paths = (path.relative_to(SITE) for path in sorted(SITE.rglob("*.html")))
    return {str(path): (SITE / path).read_text(encoding="utf-8") for path in paths if path.parts[0] != "_static"}


@functools.cache
def ids(page):
    return {unescape(found) for found in re.findall(r'\s(?:id|name)="([^"]*)"', texts()[page])}


def test_internal_links_lead_somewhere():
    @functools.cache
    def leads_somewhere(target, part):
        return (SITE / target).is_file() and (not part or target not in texts() or unquote(part) in ids(target))

    broken = []
    for page, text in texts().items():
        for link in set(re.findall(r'\s(?:href|src)="([^"]*)"', text)):
            found = urlsplit(unescape(link))
            if not found.scheme and not found.netloc:
                target = unquote(urljoin(f"/{page}", found.path)).removeprefix("/")
                if not leads_somewhere(target, found.fragment):
                    broken.append(f"{page}: {link}")
    assert broken == []


def test_pages_are_small():
    assert {page: len(text.encode()) for page, text in texts().items() if len(text.encode()) >= LARGEST} == {}


def test_the_start_page_shows_what_the_libraries_print():
    shown = re.sub("<[^>]*>", "", texts()["index.html"])
    assert all(words in shown for words in ("float32[] 1.666667", "float32[] 1.25", "uint8[1] [45]", "OverflowError"))


def test_an_operator_has_its_family_beside_it():
    beside = re.findall(r'<nav class="page-links".*?</nav>', texts()["ops/aten.var.html"], re.DOTALL)
    assert len(beside) == 1 and 'href="aten.std.html"' in beside[0]
    assert texts()["ops/aten.var.html"].count('aria-current="page">var<') == 1


# ---------------------------------------------------------------- the browser


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Serve the site, together with a page of the harness."""
    from opinfo_tests.tests.test_html_page import write

    report = write(tmp_path_factory.mktemp("report"), many=200)

    class Handler(http.server.SimpleHTTPRequestHandler):
        def translate_path(self, path):
            return str(report) if path.partition("#")[0] == "/report.html" else super().translate_path(path)

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(SITE))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not here: pip install -e '.[site]'")
    if BROWSER is None:
        pytest.skip(reason="no chromium on this machine")
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-dev-shm-usage"])
        with closing(found):
            yield found


@pytest.fixture
def page(browser, address, request):
    """Return a page that fails the test if a script raises an error."""
    context = browser.new_context(base_url=address, **getattr(request, "param", {}))
    opened = context.new_page()
    errors = []
    opened.on("pageerror", lambda error: errors.append(error))
    with closing(context):
        yield opened
    assert not errors


def look_up(page, query):
    """Open the search field with the keyboard, and type."""
    page.keyboard.press("Control+k")
    field = page.locator("#pst-search-dialog input[name=q]")
    field.fill(query)
    page.locator("#pst-search-dialog .name-hits a").first.wait_for()
    return field


def test_start_leads_to_an_operator_by_the_keyboard_alone(page):
    page.goto("index.html")
    look_up(page, "numpy.var")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_url("**/ops/aten.var.html")
    assert page.locator("h1").inner_text().startswith("aten::var")
    assert "Variance and standard deviation divide by N - 1" in page.locator("main").inner_text()


def test_escape_closes_the_list_and_arrows_lead_back_to_the_field(page):
    page.goto("ops/aten.var.html")
    field = look_up(page, "//")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    assert field.evaluate("e => e === document.activeElement")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Escape")
    page.locator("#pst-search-dialog").wait_for(state="hidden")


def test_the_search_page_has_names_above_and_the_text_below(page):
    page.goto("index.html")
    look_up(page, "ddof")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=ddof")
    page.locator("#search-results ul.search li a").first.wait_for()
    hits = page.locator(".bd-search-container .name-hits a")
    assert hits.first.get_attribute("href").endswith("ops/aten.var.html")
    assert hits.first.bounding_box()["y"] < page.locator("#search-results h2").bounding_box()["y"]
    assert "by name" in page.locator(".bd-search-container [role=status]").first.inner_text()
    page.locator(".bd-search-container input[name=q]").fill("no such thing at all")
    page.get_by_text("No name is like this.").wait_for()


def shown(page):
    return page.locator("#names tbody tr:visible td:first-child").all_inner_texts()


@pytest.mark.parametrize(
    ("library", "words", "found"),
    [("numpy", "percentile", "np.percentile"), ("torch", "cross_entropy", "F.cross_entropy"), ("python", "flip", "x[::-1]")],
)  # fmt: skip
def test_a_table_of_names_is_filtered(page, library, words, found):
    page.goto(f"names/{library}.html")
    everything = len(shown(page))
    page.get_by_label("filter the rows").fill(words)
    names = shown(page)
    assert found in names and len(names) < everything / 4
    assert page.locator("#count").inner_text() == f"{len(names)} of {everything}"
    page.get_by_label("state").select_option("differs")
    assert len(shown(page)) <= len(names)
    page.get_by_label("filter the rows").fill("no such name")
    assert shown(page) == []


@pytest.mark.parametrize("name", ["np.ptp", "np.linalg.norm"])
def test_a_row_has_an_address(page, name):
    page.goto(f"names/numpy.html#{name}")
    header = page.locator("#pst-header").bounding_box()
    assert page.locator(f'[id="{name}"]').bounding_box()["y"] >= header["y"] + header["height"] - 1


def test_the_table_of_conformance_is_filtered(page):
    page.goto("report.html")
    page.locator("#rows tr").first.wait_for()
    page.locator("#q").fill("var")
    page.wait_for_function("document.querySelectorAll('#rows tr').length === 2")
    page.locator("#only").check()
    assert page.locator("#rows tr").count() == 1
    page.locator("#rows button").first.click()
    assert page.locator("dialog").is_visible()


# ---------------------------------------------------------------- everyone can read it


@functools.cache
def axe():
    package = pytest.importorskip("axe_playwright_python", reason="axe is not here: pip install -e '.[site]'")
    return (Path(package.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


def findings(page):
    """Return the violations that axe calls serious or critical: the rule, and the elements that break it."""
    page.evaluate(axe())
    result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return {
        v["id"]: [node["html"][:200] for node in v["nodes"][:3]]
        for v in result["violations"]
        if v["impact"] in ("serious", "critical")
    }


MODES = [{"color_scheme": "light"}, {"color_scheme": "dark"}]


@pytest.mark.parametrize("page", MODES, indirect=True, ids=lambda mode: mode["color_scheme"])
@pytest.mark.parametrize("path", READ)
def test_axe_finds_nothing(page, path):
    page.goto(path)
    if path.startswith("names"):
        page.get_by_label("filter the rows").fill("sort")
    if path.startswith("search"):
        page.locator("#search-results ul.search li a").first.wait_for()
    assert findings(page) == {}


@pytest.mark.parametrize("page", MODES, indirect=True, ids=lambda mode: mode["color_scheme"])
def test_axe_finds_nothing_in_the_list_of_hits(page):
    page.goto("index.html")
    look_up(page, "var")
    assert findings(page) == {}


@pytest.mark.parametrize("page", [{"viewport": PHONE, "has_touch": True}], indirect=True, ids=["phone"])
@pytest.mark.parametrize("path", PAGES)
def test_a_phone_scrolls_one_way(page, path):
    page.goto(path)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= PHONE["width"]


@pytest.mark.parametrize("page", [{"viewport": PHONE, "has_touch": True}], indirect=True, ids=["phone"])
def test_search_on_a_phone(page):
    page.goto("ops/aten.var.html")
    page.locator(".search-button__button:visible").first.click()
    page.locator("#pst-search-dialog input[name=q]").fill("np.ptp")
    hit = page.locator("#pst-search-dialog .name-hits a").first
    hit.wait_for()
    box = page.locator("#pst-search-dialog").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= PHONE["width"]
    hit.click()
    page.wait_for_url("**/names/numpy.html#np.ptp")


# ---------------------------------------------------------------- it answers


READING = """async place => {
  const url = new URL(place, location.href), text = await (await fetch(url.pathname)).text();
  const all = new DOMParser().parseFromString(text, "text/html"), part = decodeURIComponent(url.hash.slice(1));
  const found = part ? all.getElementById(part) : all.querySelector("main");
  return [found.textContent, [...found.querySelectorAll("a")].map(a => new URL(a.getAttribute("href"), url).href)];
}"""


def words_at(page, place):
    """Return the text at an address: an operator's page, a section, or a row together with the differences that it
    links."""
    said, links = page.evaluate(READING, place)
    if place.startswith("names/"):
        said += "".join(words_at(page, link) for link in links if "/differences/" in link)
    return said


def test_each_question_is_answered_by_the_first_three_hits(page):
    """The pages found contain the words of `torchnp explain`, or the name of a counterpart."""
    page.goto("search.html")
    page.evaluate("new Promise(then => NameSearch.ready(then))")
    hits = {q: page.evaluate("q => NameSearch.search(q, 3)", q) for q, _ in QUESTIONS}
    said = functools.cache(functools.partial(words_at, page))
    missing = {}
    for question, words in QUESTIONS:
        text = " ".join(f"{hit['title']} {hit['summary']} {said(hit['url'])}" for hit in hits[question])
        text = " ".join(text.replace("’", "'").split())
        left = [w for w in words if w.removeprefix("is ").removesuffix(" in NumPy") not in text]
        if left:
            missing[question] = left
    assert missing == {}
