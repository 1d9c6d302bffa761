"""The page of a scale and the page to try a model in a real browser: Chromium with its driver, and axe-core."""

import threading
from collections.abc import Iterator

import lxml.etree
import pytest
from selenium import webdriver
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.actions.pointer_input import PointerInput
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait
from support import page
from support.browsing import ALL, DESK, TELEPHONE, check_access, check_loading, check_width, show, started
from support.project import ROOT
from support.serving import PATIENCE, answering, make_trial, question, served

from transformer.report.figures import COLORS
from transformer.report.live import _BODY, Trial

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("on_the_processor")]

# Records the translations that the page has shown, and counts its requests.
WATCH = """
    window.seen = [];
    window.sent = 0;
    const shown = document.getElementById("translation"), own = window.fetch;
    window.fetch = (...arguments) => ((sent += 1), own(...arguments));
    new MutationObserver(() => seen.push(shown.innerText)).observe(shown, { childList: true });
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory) -> str:
    """Return the URL of the page of a scale."""
    return page.write_page(tmp_path_factory.mktemp("page")).as_uri()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_trial(tmp_path_factory.mktemp("run") / "1")


@pytest.fixture(scope="module")
def address(run) -> Iterator[str]:
    """Return the URL of the page to try a model."""
    with served(run) as (_, address):
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    with started() as driver:
        yield driver


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


def wait_for(browser, selector: str, text: str) -> None:
    """Wait until an element's text begins with `text`, or is empty if `text` is empty. A busy browser is slow."""

    def there(browser) -> bool:
        found = element(browser, selector).text
        return found.startswith(text) if text else not found

    WebDriverWait(browser, PATIENCE).until(there, f"expected {text!r} at {selector}")


def hear(browser, text: str) -> None:
    wait_for(browser, "#told", text)


def lines(browser) -> int:
    return len(browser.find_elements(By.CSS_SELECTOR, "#lines path"))


def words(browser, column: str) -> list:
    return browser.find_elements(By.CSS_SELECTOR, f"#{column} button")


def choose(browser, kind: str, layer: str, heads: int) -> None:
    """Show the first heads of a layer in the viewer."""
    Select(element(browser, "#kind")).select_by_value(kind)
    Select(element(browser, "#layer")).select_by_visible_text(layer)
    for number, box in enumerate(browser.find_elements(By.CSS_SELECTOR, "#heads input")):
        if box.is_selected() != (number < heads):
            box.click()


def texts(elements) -> list[str]:
    return [one.text for one in elements]


# The page of a scale


def test_number_opens_its_runs_by_click_and_by_key_and_closes(browser, url):
    check_loading(browser, url)
    number, dialog = element(browser, "td[data-runs] button"), element(browser, "dialog")
    assert not dialog.is_displayed()
    number.click()
    assert texts(dialog.find_elements(By.TAG_NAME, "h3")) == ["en-de/base/1", "en-de/base/2"]
    assert "test.json: 2 checkpoints from step 5,800" in dialog.text
    assert "This page was given no run of this name." in dialog.text
    press(browser, Keys.ESCAPE)
    assert not dialog.is_displayed()
    assert browser.switch_to.active_element == number
    press(browser, Keys.ENTER)
    element(browser, "dialog form button").click()
    assert not dialog.is_displayed()


def test_viewer_follows_the_pointer_and_holds_a_click_or_a_tap(browser, url):
    """In layer 1, head m gives 0.7 to key m, counted from 0, and 0.1 to each of the three other keys."""
    show(browser, url)
    hear(browser, "All words: layer 2, mean of 3 heads.")
    assert {line.get_attribute("stroke") for line in browser.find_elements(By.CSS_SELECTOR, "#lines path")} == {"#000"}
    assert lines(browser) == 3 * 4  # three words of the translation, four of the sentence
    choose(browser, "encoder", "1", heads=1)
    hear(browser, "All words: layer 1, head 1.")
    assert lines(browser) == 4 * 4
    assert texts(Select(element(browser, "#sentence")).options) == ["Difficult</script>", "Another"]
    choose(browser, "encoder", "1", heads=3)
    strokes = {line.get_attribute("stroke") for line in browser.find_elements(By.CSS_SELECTOR, "#lines path")}
    assert strokes == set(COLORS[:3])
    assert lines(browser) == 4 * 4 * 3
    point(browser, words(browser, "queries")[2])
    hear(browser, "more attends to make 0.30, it 0.30, more 0.30, difficult 0.10 (layer 1, mean of 3 heads).")
    assert lines(browser) == 4 * 3
    words(browser, "keys")[3].click()
    point(browser, element(browser, "h1"))
    hear(browser, "difficult is attended to by make 0.10, it 0.10")
    assert words(browser, "keys")[3].get_attribute("aria-pressed") == "true"
    words(browser, "keys")[3].click()
    point(browser, element(browser, "h1"))
    hear(browser, "All words")
    show(browser, url, TELEPHONE)
    choose(browser, "encoder", "1", heads=1)
    browser.execute_script("document.getElementById('attention').scrollIntoView()")
    tap(browser, words(browser, "queries")[1])
    hear(browser, "it attends to make 0.70, it 0.10, more 0.10, difficult 0.10 (layer 1, head 1).")
    tap(browser, words(browser, "queries")[1])
    hear(browser, "All words: layer 1, head 1.")


def test_viewer_answers_keys(browser, url):
    """In layer 2, head 1 looks at key 1. A decoder has three words, and reads each one step after it is written."""
    show(browser, url)
    choose(browser, "encoder", "1", heads=1)
    browser.execute_script("document.getElementById('queries').firstChild.focus()")
    press(browser, Keys.ARROW_DOWN)
    hear(browser, "it attends to")
    press(browser, Keys.ARROW_RIGHT)
    hear(browser, "it is attended to by")
    press(browser, Keys.END, Keys.HOME, Keys.ARROW_UP)
    hear(browser, "make is attended to by")
    press(browser, Keys.SPACE)
    assert words(browser, "keys")[0].get_attribute("aria-pressed") == "true"
    press(browser, Keys.ESCAPE)
    hear(browser, "All words")
    Select(element(browser, "#layer")).select_by_visible_text("2")
    Select(element(browser, "#kind")).select_by_value("decoder")
    element(browser, "#heads input").send_keys(Keys.SPACE)
    hear(browser, "No head is chosen.")
    assert lines(browser) == 0
    element(browser, "#heads input").send_keys(Keys.SPACE)
    words(browser, "queries")[0].click()
    hear(browser, "er attends to er 0.70, <pad> 0.15, schwe@@ 0.15 (layer 2, head 1).")


def test_nothing_overflows_a_telephone(browser, url):
    """The wide table scrolls in its box, and a card in its dialog."""
    show(browser, url, TELEPHONE)
    check_width(browser)
    wide = "const box = document.querySelector('#tables .scroll'); return box.scrollWidth > 2 * box.clientWidth"
    assert browser.execute_script(wide)
    browser.execute_script("document.querySelector('td[data-runs] button').click()")
    fits = "return arguments[0].scrollWidth <= arguments[0].clientWidth"
    assert browser.execute_script(fits, element(browser, "dialog"))
    check_width(browser)


@pytest.mark.parametrize("width", [400, 1280])
def test_the_first_screen_of_the_record_has_the_findings(browser, width: int):
    """Base's scores and Table 3's verdicts are visible. On a desktop, the folded page has up to 22 screens."""
    show(browser, (ROOT / "results/record/multi30k/report.html").as_uri(), width)
    scores, found = browser.find_elements(By.CSS_SELECTOR, ".found")
    assert scores.text.count("BLEU: ") == 2
    assert "replicated on both dev and test: " in found.text
    assert found.rect["y"] + found.rect["height"] <= 800
    assert width < 1280 or browser.execute_script("return document.scrollingElement.scrollHeight") <= 22 * 800


def test_reads_without_javascript(browser, url):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        show(browser, url)
        text = element(browser, "body").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert "27.3 ± 0.2" in text
    assert "This viewer needs JavaScript." in text


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser, url, scheme: str):
    show(browser, url, DESK, scheme)
    check_access(browser)
    browser.execute_script("document.querySelector('td[data-runs] button').click()")
    check_access(browser)


# The page to try a model


def write(browser, text: str) -> None:
    """Replace the text."""
    element(browser, "#text").send_keys(Keys.CONTROL, "a")
    element(browser, "#text").send_keys(text or Keys.DELETE)


def test_translates_as_one_types_with_the_best_and_the_attention(browser, address):
    check_loading(browser, address)
    assert not element(browser, "#viewer").is_displayed()
    found = question(address, "ab cd ef", attention=True)
    write(browser, "ab cd ef")
    wait_for(browser, "#translation", found["translations"][0]["text"])
    ranking = [row.text for row in browser.find_elements(By.CSS_SELECTOR, "#best tr")]
    assert ranking == [f"{one['text']} {one['score']:.3f}".replace("-", "−") for one in found["translations"]]
    (sentence,) = found["attention"]["sentences"]
    assert [texts(words(browser, "queries")), texts(words(browser, "keys"))] == [sentence["target"], sentence["source"]]
    assert element(browser, "#told").text == "All words: layer 2, mean of 2 heads."
    assert element(browser, "h1").text == "Translate from English to German"
    browser.execute_script("URL.createObjectURL = (file) => (file.text().then((text) => (window.saved = text)), '#')")
    element(browser, "#save").click()
    saved = WebDriverWait(browser, PATIENCE).until(lambda browser: browser.execute_script("return window.saved"))
    picture = lxml.etree.fromstring(saved)
    assert [text.text for text in picture.iter("{*}text")] == [*sentence["target"], *sentence["source"]]
    assert len(list(picture.iter("{*}path"))) == len(browser.find_elements(By.CSS_SELECTOR, "#lines path"))
    found = question(address, "mn op mn", attention=True)  # the viewer keeps its settings for this text
    write(browser, "mn op mn")
    wait_for(browser, "#translation", found["translations"][0]["text"])
    (sentence,) = found["attention"]["sentences"]
    assert [texts(words(browser, "queries")), texts(words(browser, "keys"))] == [sentence["target"], sentence["source"]]
    assert element(browser, "#told").text == "All words: layer 2, mean of 2 heads."
    assert not element(browser, "#sentence").is_displayed()
    write(browser, "")
    wait_for(browser, "#translation", "")
    assert not element(browser, "#ranking").is_displayed()
    assert not element(browser, "#viewer").is_displayed()


def test_limits_are_stated_in_words(browser, address):
    show(browser, address)
    write(browser, "ab " * 81)
    wait_for(browser, "#problem", "expected a sentence of 1 to 80 words, as the tokeniser cuts them, found 81")
    browser.execute_script("document.getElementById('text').value = 'a'.repeat(arguments[0])", _BODY)
    element(browser, "#text").send_keys("b")
    wait_for(browser, "#problem", f"This text is too long: {_BODY + 29} bytes, the maximum is {_BODY}.")
    write(browser, "ab")
    wait_for(browser, "#translation", question(address, "ab")["translations"][0]["text"])
    assert element(browser, "#problem").text == ""


def test_only_the_newest_answer_is_shown_and_a_missing_server_is_reported(browser, run):
    """The first request is in progress when the second arrives. The answer to the first request is not shown."""
    asked, go = [], threading.Event()

    def slow(text: str) -> dict:
        asked.append(text)
        if text == "first":
            go.wait(PATIENCE)
        return {"translations": [{"text": text, "score": -0.5}], "attention": page.attention()}

    with answering(slow, Trial(run).page()) as address:
        show(browser, address)
        browser.execute_script(WATCH)
        write(browser, "first")
        WebDriverWait(browser, PATIENCE).until(lambda _: asked == ["first"])
        write(browser, "second")
        WebDriverWait(browser, PATIENCE).until(lambda browser: browser.execute_script("return sent") == 2)
        go.set()
        wait_for(browser, "#translation", "second")
        assert asked == ["first", "second"]
        assert browser.execute_script("return seen") == ["second"]
    write(browser, "third")
    wait_for(browser, "#problem", "The server does not answer. If it has stopped, restart it and continue typing.")
    assert element(browser, "#translation").text == ""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_and_a_telephone_is_wide_enough(browser, address, scheme):
    for text, shown in (("", "#text"), ("ab cd ef", "#viewer"), ("ab" * 60, "#viewer"), ("ab " * 81, "#problem")):
        show(browser, address, DESK, scheme)
        write(browser, text)
        WebDriverWait(browser, PATIENCE).until(lambda browser, shown=shown: element(browser, shown).is_displayed())
        check_access(browser, ALL, passed=("label",))
    show(browser, address, TELEPHONE)
    write(browser, "ab" * 60)
    wait_for(browser, "#translation", question(address, "ab" * 60)["translations"][0]["text"])
    choose(browser, "encoder", "1", heads=2)
    check_width(browser)
