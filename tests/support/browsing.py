"""Pages in a real browser, and checks for all of them: no errors, no network, a phone's width, axe-core."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver

from support.tools import needs

AXE = Path(__file__).parents[2] / "node_modules/axe-core/axe.min.js"
TELEPHONE, DESK = 360, 1100  # widths in pixels
SERIOUS = ("serious", "critical")
ALL = ("minor", "moderate", *SERIOUS)


@contextmanager
def started() -> Iterator[webdriver.Chrome]:
    """Start Chromium without a window. It logs its network requests."""
    options = webdriver.ChromeOptions()
    for option in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(option)
    options.binary_location = needs("chromium", "apt-get install chromium")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(needs("chromedriver", "apt-get install chromium-driver"))
    with webdriver.Chrome(options=options, service=service) as browser:
        browser.set_script_timeout(300)  # seconds, for axe-core on a long page
        yield browser


def show(browser, url: str, width: int = DESK, scheme: str = "light") -> None:
    """Open the page with this width in pixels and this colour scheme."""
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width == TELEPHONE}
    colors = {"media": "screen", "features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", colors)
    browser.get(url)


def open_cards(browser) -> None:
    """Open the cards of all runs."""
    browser.execute_script("document.querySelectorAll('details').forEach(each => { each.open = true })")


def check_loading(browser, url: str) -> None:
    """Check that the console has no error, and that the page requested only its own URL."""
    show(browser, url)
    browser.get_log("browser"), browser.get_log("performance")  # discard earlier log entries
    browser.refresh()
    assert browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [message["params"] for message in messages if message["method"] == "Network.requestWillBeSent"]
    addresses = {params["request"]["url"] for params in sent}
    assert {address for address in addresses if not address.startswith("data:")} == {url}


def check_width(browser) -> None:
    """Check that nothing is wider than a phone's screen, including the cards of the runs."""
    open_cards(browser)
    across = browser.execute_script("return [document.scrollingElement.scrollWidth, innerWidth]")
    assert across == [TELEPHONE, TELEPHONE]


def check_access(browser, impacts: tuple[str, ...] = SERIOUS, passed: tuple[str, ...] = ("button-name",)) -> None:
    """Check that axe-core finds no problem of these impacts on the visible page: names, roles, contrast."""
    axe = Path(needs(str(AXE), "npm install --no-package-lock"))
    open_cards(browser)
    browser.execute_script(axe.read_text("utf-8"))
    result = browser.execute_async_script("axe.run().then(arguments[0])")
    assert {rule["id"] for rule in result["passes"]} >= {"color-contrast", *passed}
    serious = [(rule["id"], rule["nodes"][0]["html"]) for rule in result["violations"] if rule["impact"] in impacts]
    assert serious == []
