"""The page to try a model, in a browser: it follows what is typed, shows texts as text, and can be read by all.

Needs Chromium with its driver and axe-core (tools.py).
"""

import threading
from collections.abc import Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait
from support import browsing, page
from support.browsing import ALL, DESK, TELEPHONE, check_access, check_loading, check_width, started
from support.serving import PATIENCE, answering, make_trial, question, served

from transformer.report.page.live import BODY, open_trial

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("on_the_processor")]

HOSTILE = "<script>document.title = 'ours'</script><img src=x onerror=\"document.title = 'ours'\">"

WATCH = """
    const shown = document.getElementById("translation");
    window.seen = [];
    window.sent = 0;
    const own = window.fetch;
    window.fetch = (...arguments) => ((sent += 1), own(...arguments));
    new MutationObserver(() => seen.push(shown.innerText)).observe(shown, { childList: true });
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_trial(tmp_path_factory.mktemp("run") / "1")


@pytest.fixture(scope="module")
def address(run) -> Iterator[str]:
    with served(run) as (_, address):
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    with started() as driver:
        yield driver


def element(browser, selector: str):
    return browser.find_element(By.CSS_SELECTOR, selector)


def words(browser, column: str) -> list[str]:
    return [button.text for button in browser.find_elements(By.CSS_SELECTOR, f"#{column} button")]


def write(browser, text: str) -> None:
    """Put a text in place of what is there."""
    element(browser, "#text").send_keys(Keys.CONTROL, "a")
    element(browser, "#text").send_keys(text or Keys.DELETE)


def wait_for(browser, selector: str, text: str) -> None:
    waiting = WebDriverWait(browser, PATIENCE)
    waiting.until(lambda browser: element(browser, selector).text == text, f"expected {text!r} at {selector}")


def ranking(browser) -> list[list[str]]:
    rows = browser.find_elements(By.CSS_SELECTOR, "#best tr")
    return [[cell.text for cell in row.find_elements(By.TAG_NAME, "td")] for row in rows]


def echo(text: str) -> dict:
    """Return an answer whose every text is the one that was asked for."""
    attention = page.attention()
    (sentence, _) = attention.pop("sentences")
    sentence |= {side: [text] * len(sentence[side]) for side in ("source", "target", "shifted")} | {"title": text}
    return {"translations": [{"text": text, "score": -0.5}] * 2, "attention": attention | {"sentences": [sentence]}}


def test_loads_without_error_and_asks_no_other_address(browser, address):
    check_loading(browser, address)
    assert not element(browser, "#viewer").is_displayed()


def test_translates_as_one_types_with_the_best_and_the_attention(browser, address):
    browsing.show(browser, address)
    for text in ("ab cd ef", "gh ij"):
        found = question(address, text)
        write(browser, text)
        wait_for(browser, "#translation", found["translations"][0]["text"])
        scores = [f"{one['score']:.3f}".replace("-", "−") for one in found["translations"]]
        texts = [one["text"] for one in found["translations"]]
        assert ranking(browser) == [list(row) for row in zip(texts, scores, strict=True)]
        (sentence,) = found["attention"]["sentences"]
        assert words(browser, "queries") == words(browser, "keys") == sentence["source"]
    assert element(browser, "#told").text == "All words: layer 1, head 1."
    Select(element(browser, "#kind")).select_by_value("cross")
    Select(element(browser, "#layer")).select_by_visible_text("2")
    element(browser, "#all").click()
    found = question(address, "mn op mn")  # for which the viewer keeps these
    write(browser, "mn op mn")
    wait_for(browser, "#translation", found["translations"][0]["text"])
    (sentence,) = found["attention"]["sentences"]
    assert [words(browser, "queries"), words(browser, "keys")] == [sentence["target"], sentence["source"]]
    assert element(browser, "#told").text == "All words: layer 2, mean of 2 heads."
    assert not element(browser, "#sentence").is_displayed()
    write(browser, "")
    wait_for(browser, "#translation", "")
    assert not element(browser, "#ranking").is_displayed()
    assert not element(browser, "#viewer").is_displayed()


def test_limits_are_told_in_words(browser, address):
    browsing.show(browser, address)
    write(browser, "ab " * 81)
    wait_for(browser, "#problem", "expected a sentence of 1 to 80 words, as the tokeniser cuts them, found 81")
    assert not element(browser, "#viewer").is_displayed()
    browser.execute_script("document.getElementById('text').value = 'a'.repeat(arguments[0])", BODY)
    element(browser, "#text").send_keys("b")
    wait_for(browser, "#problem", f"This is too long: {BODY + 12} bytes, at most {BODY} are read.")
    write(browser, "ab")
    wait_for(browser, "#translation", question(address, "ab")["translations"][0]["text"])
    assert element(browser, "#problem").text == ""


def test_hostile_texts_are_shown_as_text(browser, run):
    with answering(echo, open_trial(run).page()) as address:
        browsing.show(browser, address)
        write(browser, HOSTILE)
        wait_for(browser, "#translation", HOSTILE)
        assert ranking(browser) == [[HOSTILE, "−0.500"]] * 2
        assert set(words(browser, "queries")) == {HOSTILE}
        assert "Translate with en-de/base/1" in browser.title
        assert browser.find_elements(By.CSS_SELECTOR, "img") == []


def test_only_the_newest_answer_is_shown_and_a_server_that_is_gone_is_told(browser, run):
    """The first question is being worked out when the second comes; its answer comes and is not shown."""
    asked, go = [], threading.Event()

    def slow(text: str) -> dict:
        asked.append(text)
        if text == "first":
            go.wait(PATIENCE)
        return echo(text)

    with answering(slow, open_trial(run).page()) as address:
        browsing.show(browser, address)
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
    wait_for(browser, "#problem", "The server does not answer. If it was ended, start it again and type on.")
    assert element(browser, "#translation").text == ""


@pytest.mark.parametrize("text", ["ab cd ef gh", "ab" * 60], ids=["words", "one long word"])
def test_nothing_overflows_a_telephone(browser, address, text):
    browsing.show(browser, address, TELEPHONE)
    write(browser, text)
    wait_for(browser, "#translation", question(address, text)["translations"][0]["text"])
    element(browser, "#all").click()
    check_width(browser)


@pytest.mark.parametrize(
    ("text", "scheme"), [("", "light"), ("ab cd ef", "light"), ("ab cd ef", "dark"), ("ab " * 81, "dark")]
)
def test_axe_finds_nothing(browser, address, scheme, text):
    browsing.show(browser, address, DESK, scheme)
    if text:
        write(browser, text)
        shown = "#viewer" if text.startswith("ab cd") else "#problem"
        WebDriverWait(browser, PATIENCE).until(lambda browser: element(browser, shown).is_displayed())
    check_access(browser, ALL, passed=("label",))
