"""Pages in a real browser, and what each of them must pass there: no error, no network, a telephone, axe-core."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver

from support.tools import needs

AXE = Path(__file__).parents[2] / "node_modules/axe-core/axe.min.js"
TELEPHONE, DESK = 360, 1100  # pixels across
SERIOUS = ("serious", "critical")
ALL = ("minor", "moderate", *SERIOUS)


@contextmanager
def started() -> Iterator[webdriver.Chrome]:
    """Start Chromium without a window; it logs what it asks the network for."""
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
    """Open the page so many pixels wide, in these colours."""
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width == TELEPHONE}
    colors = {"media": "screen", "features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", colors)
    browser.get(url)


def open_cards(browser) -> None:
    """Open the cards of all runs."""
    browser.execute_script("document.querySelectorAll('details').forEach(each => { each.open = true })")


def check_loading(browser, url: str) -> None:
    """Check that the console has no error, and that the page asked for no address but its own."""
    show(browser, url)
    browser.get_log("browser"), browser.get_log("performance")  # what came before
    browser.refresh()
    assert browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [message["params"] for message in messages if message["method"] == "Network.requestWillBeSent"]
    addresses = {params["request"]["url"] for params in sent}
    assert {address for address in addresses if not address.startswith("data:")} == {url}


def check_width(browser) -> None:
    """Check that nothing on a telephone is wider than it, not even in the cards of the runs."""
    open_cards(browser)
    across = browser.execute_script("return [document.scrollingElement.scrollWidth, innerWidth]")
    assert across == [TELEPHONE, TELEPHONE]


def check_access(browser, impacts: tuple[str, ...] = SERIOUS, passed: tuple[str, ...] = ("button-name",)) -> None:
    """Check that axe-core finds nothing of these impacts on the page as it is shown: names, roles, contrast."""
    axe = Path(needs(str(AXE), "npm install --no-package-lock"))
    open_cards(browser)
    browser.execute_script(axe.read_text("utf-8"))
    result = browser.execute_async_script("axe.run().then(arguments[0])")
    assert {rule["id"] for rule in result["passes"]} >= {"color-contrast", *passed}
    serious = [(rule["id"], rule["nodes"][0]["html"]) for rule in result["violations"] if rule["impact"] in impacts]
    assert serious == []
