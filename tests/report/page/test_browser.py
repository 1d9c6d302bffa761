"""The page in a real browser: Chromium with its driver, and axe-core (tools.py)."""

from collections.abc import Callable, Iterator

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
def show(browser, url) -> Callable[..., webdriver.Chrome]:
    """Open the page as `browsing.show` does."""
    return lambda *how, **also: browsing.show(browser, url, *how, **also) or browser


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


def hear(browser, text: str) -> None:
    """Wait until the viewer says something that begins with `text`: a busy browser answers keys a little later."""
    WebDriverWait(browser, 20).until(lambda browser: element(browser, "#told").text.startswith(text), text)


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
    assert [heading.text for heading in dialog.find_elements(By.TAG_NAME, "h3")] == ["en-de/base/1", "en-de/base/2"]
    assert "test.json: 2 checkpoints from step 5,800" in dialog.text
    assert "This page was given no run of this name." in dialog.text
    press(browser, Keys.ESCAPE)
    assert not dialog.is_displayed()
    assert browser.switch_to.active_element == number
    press(browser, Keys.ENTER)
    element(browser, "dialog form button").click()
    assert not dialog.is_displayed()


def test_viewer_follows_the_pointer_and_holds_a_click(show):
    """In layer 1 head m looks at key m, counted from 0, by 0.7, at the three others by 0.1."""
    browser = show()
    hear(browser, "All words: layer 1, head 1.")
    assert lines(browser) == 4 * 4
    assert [one.text for one in Select(element(browser, "#sentence")).options] == ["Difficult</script>", "Another"]
    element(browser, "#all").click()
    strokes = {line.get_attribute("stroke") for line in browser.find_elements(By.CSS_SELECTOR, "#lines path")}
    assert strokes == set(COLORS[:3])
    assert lines(browser) == 4 * 4 * 3
    point(browser, word(browser, "queries", 2))
    hear(browser, "more attends to make 0.30, it 0.30, more 0.30, difficult 0.10 (layer 1, mean of 3 heads).")
    assert lines(browser) == 4 * 3
    word(browser, "keys", 3).click()
    point(browser, element(browser, "h1"))
    hear(browser, "difficult is attended to by make 0.10, it 0.10")
    assert word(browser, "keys", 3).get_attribute("aria-pressed") == "true"
    word(browser, "keys", 3).click()
    point(browser, element(browser, "h1"))
    hear(browser, "All words")


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


def test_nothing_overflows_a_telephone(show):
    """The wide table scrolls in its own box, and a card in its dialog."""
    browser = show(TELEPHONE)
    check_width(browser)
    box = element(browser, "#tables .scroll")
    assert browser.execute_script("return arguments[0].scrollWidth > 2 * arguments[0].clientWidth", box)
    browser.execute_script("document.querySelector('td[data-runs] button').click()")
    fits = "return arguments[0].scrollWidth <= arguments[0].clientWidth"
    assert browser.execute_script(fits, element(browser, "dialog"))
    check_width(browser)


def test_print_has_whole_tables_and_cards_and_no_viewer(show):
    shown = "return document.querySelector('#run-en-de-base-1 .facts').checkVisibility()"
    browser = show(SHEET, medium="print")
    assert browser.execute_script(shown)
    assert page.about_run()["digest"] in browser.execute_script("return document.querySelector('#runs').innerText")
    assert not element(browser, "#viewer").is_displayed()
    assert browser.execute_script("return document.scrollingElement.scrollWidth <= innerWidth")
    overflows = (
        "return [...document.querySelectorAll('#tables .scroll')].some((box) => box.scrollWidth > box.clientWidth)"
    )
    assert not browser.execute_script(overflows)


def test_reads_without_javascript(show):
    browser = show()
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.refresh()
        text = element(browser, "body").text
        assert "27.3 ± 0.2" in text
        assert "This needs JavaScript." in text
        assert "Choose a number" not in text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("opened", [False, True], ids=["page", "dialog"])
def test_axe_finds_nothing_serious(show, scheme: str, opened: bool):
    browser = show(DESK, scheme)
    if opened:
        element(browser, "td[data-runs] button").click()
    check_access(browser)
