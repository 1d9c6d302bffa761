"""The page in a browser: it needs no network, answers mouse and keys, fits a telephone, and can be read by all.

Needs Chromium with its driver and axe-core (tools.py).
"""

from collections.abc import Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.actions.pointer_input import PointerInput
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait
from support import browsing, page
from support.browsing import DESK, SHEET, TELEPHONE, check_access, check_loading, check_width, started

from transformer.report.figures import COLORS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def url(tmp_path_factory) -> str:
    return page.write_page(tmp_path_factory.mktemp("page")).as_uri()


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    with started() as driver:
        yield driver


@pytest.fixture
def show(browser, url):
    """Open the page as `browsing.show` does."""

    def opened(*how, **also) -> webdriver.Chrome:
        browsing.show(browser, url, *how, **also)
        return browser

    return opened


def element(browser, selector: str):
    return browser.find_element(By.CSS_SELECTOR, selector)


def press(browser, *keys: str) -> None:
    for key in keys:
        browser.switch_to.active_element.send_keys(key)


def point(browser, to) -> None:
    webdriver.ActionChains(browser).move_to_element(to).perform()


def tap(browser, to) -> None:
    finger = ActionBuilder(browser, mouse=PointerInput("touch", "finger"))
    finger.pointer_action.move_to(to).pointer_down().pointer_up()
    finger.perform()
    finger.clear_actions()


def told(browser) -> str:
    """Return what the viewer says to all and to screen readers."""
    return element(browser, "#told").text


def hear(browser, text: str) -> None:
    """Wait until the viewer says something that begins with `text`: a busy browser answers keys a little later."""
    WebDriverWait(browser, 20).until(lambda browser: told(browser).startswith(text), f"expected to be told {text!r}")


def lines(browser) -> int:
    return len(browser.find_elements(By.CSS_SELECTOR, "#lines path"))


def word(browser, column: str, place: int):
    return browser.find_elements(By.CSS_SELECTOR, f"#{column} button")[place]


def test_loads_without_error_and_without_network(browser, url: str):
    check_loading(browser, url)


def test_number_opens_its_runs_by_click_and_by_key_and_closes(show):
    browser = show()
    number, dialog = element(browser, "td[data-runs] button"), element(browser, "dialog")
    assert not dialog.is_displayed()
    number.click()
    assert dialog.is_displayed()
    assert [heading.text for heading in dialog.find_elements(By.TAG_NAME, "h3")] == ["en-de/base/1", "en-de/base/2"]
    assert page.about_run()["data_sha256"] in dialog.text
    assert "stale test.json: " in dialog.text
    assert "This page was given no run of this name." in dialog.text
    press(browser, Keys.ESCAPE)
    assert not dialog.is_displayed()
    assert browser.switch_to.active_element == number
    press(browser, Keys.ENTER)
    assert dialog.is_displayed()
    element(browser, "dialog form button").click()
    assert not dialog.is_displayed()


def test_viewer_follows_the_pointer_and_holds_a_click(show):
    """In layer 1 head m looks at key m, counted from 0, by 0.7, at the three others by 0.1."""
    browser = show()
    hear(browser, "All words: layer 1, head 1.")
    assert lines(browser) == 4 * 4
    element(browser, "#all").click()
    strokes = {line.get_attribute("stroke") for line in browser.find_elements(By.CSS_SELECTOR, "#lines path")}
    assert strokes == set(COLORS[:3])
    assert lines(browser) == 4 * 4 * 3
    point(browser, word(browser, "queries", 2))
    mean = (0.7 + 0.1 + 0.1) / 3
    hear(
        browser,
        f"more attends to make {mean:.2f}, it {mean:.2f}, more {mean:.2f}, difficult 0.10 (layer 1, mean of 3 heads).",
    )
    assert lines(browser) == 4 * 3
    point(browser, element(browser, "h1"))
    hear(browser, "All words")
    word(browser, "keys", 3).click()
    point(browser, element(browser, "h1"))
    hear(browser, "difficult is attended to by make 0.10, it 0.10")
    assert word(browser, "keys", 3).get_attribute("aria-pressed") == "true"
    word(browser, "keys", 3).click()
    assert word(browser, "keys", 3).get_attribute("aria-pressed") == "false"


def test_viewer_holds_a_tap(show):
    browser = show(TELEPHONE)
    browser.execute_script("document.getElementById('attention').scrollIntoView()")
    tap(browser, word(browser, "queries", 1))
    hear(browser, "it attends to make 0.70, it 0.10, more 0.10, difficult 0.10 (layer 1, head 1).")
    tap(browser, word(browser, "queries", 1))
    hear(browser, "All words: layer 1, head 1.")


def test_viewer_answers_keys(show):
    """In layer 2 head 1 looks at key 1; a decoder has three words, and reads them one behind what it writes."""
    browser = show()
    browser.execute_script("document.getElementById('queries').firstChild.focus()")
    press(browser, Keys.ARROW_DOWN)
    hear(browser, "it attends to")
    press(browser, Keys.ARROW_RIGHT)
    hear(browser, "it is attended to by")
    press(browser, Keys.END, Keys.HOME, Keys.ARROW_UP)
    hear(browser, "make is attended to by")
    press(browser, Keys.SPACE)
    assert word(browser, "keys", 0).get_attribute("aria-pressed") == "true"
    press(browser, Keys.ESCAPE)
    hear(browser, "All words")
    Select(element(browser, "#layer")).select_by_visible_text("2")
    Select(element(browser, "#kind")).select_by_value("decoder")
    element(browser, "#heads input").send_keys(Keys.SPACE)
    hear(browser, "No head is chosen.")
    assert lines(browser) == 0
    element(browser, "#heads input").send_keys(Keys.SPACE)
    word(browser, "queries", 0).click()
    hear(browser, "er attends to er 0.70, <pad> 0.15, schwe@@ 0.15 (layer 2, head 1).")


def test_viewer_has_every_sentence_and_kind(show):
    browser = show()
    assert [option.text for option in Select(element(browser, "#sentence")).options] == [
        "Difficult</script>",
        "Another",
    ]
    Select(element(browser, "#kind")).select_by_value("cross")
    columns = [browser.find_elements(By.CSS_SELECTOR, f"#{column} button") for column in ("queries", "keys")]
    assert [[word.text for word in column] for column in columns] == [page.TOKENS["target"], page.TOKENS["source"]]


@pytest.mark.parametrize("opened", [False, True], ids=["page", "dialog"])
def test_nothing_overflows_a_telephone(show, opened: bool):
    """The wide table scrolls in its own box."""
    browser = show(TELEPHONE)
    if opened:
        browser.execute_script("document.querySelector('td[data-runs] button').click()")
        assert browser.execute_script(
            "const it = document.querySelector('dialog'); return it.scrollWidth <= it.clientWidth"
        )
    check_width(browser)
    box = element(browser, "#tables .scroll")
    assert browser.execute_script("return arguments[0].scrollWidth > 2 * arguments[0].clientWidth", box)


def test_print_has_whole_tables_and_cards_and_no_viewer(show):
    shown = "return document.querySelector('#run-en-de-base-1 .facts').checkVisibility()"
    assert not show(SHEET).execute_script(shown)
    browser = show(SHEET, medium="print")
    assert browser.execute_script(shown)
    assert page.about_run()["digest"] in browser.execute_script("return document.querySelector('#runs').innerText")
    assert not element(browser, "#viewer").is_displayed()
    assert not element(browser, "nav").is_displayed()
    assert browser.execute_script("return document.scrollingElement.scrollWidth <= innerWidth")
    boxes = browser.find_elements(By.CSS_SELECTOR, "#tables .scroll")
    assert all(
        browser.execute_script("return arguments[0].scrollWidth <= arguments[0].clientWidth", box) for box in boxes
    )


def test_reads_without_javascript(show):
    browser = show()
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.refresh()
        text = element(browser, "body").text
        assert "27.3 ± 0.2" in element(browser, "#table2 td[data-runs]").text
        assert "This needs JavaScript." in text
        assert "Choose a number" not in text
        assert not element(browser, "#viewer").is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("opened", [False, True], ids=["page", "dialog"])
def test_axe_finds_nothing_serious(show, scheme: str, opened: bool):
    browser = show(DESK, scheme)
    if opened:
        element(browser, "td[data-runs] button").click()
    check_access(browser)
