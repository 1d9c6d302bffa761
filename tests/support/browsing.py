"""Pages in a real browser, and what each of them must pass there: no error, no network, a telephone, axe-core."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.by import By

from support.tools import needs

AXE = Path(__file__).parents[2] / "node_modules/axe-core/axe.min.js"
TELEPHONE, DESK, SHEET = 360, 1100, 1030  # pixels across; a sheet of A4 on its side within its margins
SERIOUS = ("serious", "critical")
PATIENCE = 300  # seconds for axe-core on a long page


@contextmanager
def started() -> Iterator[webdriver.Chrome]:
    """Chromium without a window, which logs what it asks the network for."""
    options = webdriver.ChromeOptions()
    for option in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(option)
    options.binary_location = needs("chromium", "apt-get install chromium")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(needs("chromedriver", "apt-get install chromium-driver"))
    with webdriver.Chrome(options=options, service=service) as browser:
        browser.set_script_timeout(PATIENCE)
        yield browser


def show(browser, url: str, width: int = DESK, scheme: str = "light", medium: str = "screen") -> None:
    """Open the page anew: how many pixels across, in which colours, on which medium."""
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width == TELEPHONE}
    colors = {"media": medium, "features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", colors)
    browser.get(url)


def open_cards(browser) -> None:
    """Those of all runs."""
    for details in browser.find_elements(By.CSS_SELECTOR, "details"):
        browser.execute_script("arguments[0].open = true", details)


def check_loading(browser, url: str) -> None:
    """No error in the console, and no address but its own asked for."""
    show(browser, url)
    browser.get_log("browser"), browser.get_log("performance")  # what came before
    browser.refresh()
    assert browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]
    assert {address for address in asked if not address.startswith("data:")} == {url}


def check_width(browser) -> None:
    """Of a page shown on a telephone: nothing is wider, not even in the cards of the runs."""
    open_cards(browser)
    across = browser.execute_script("return [document.scrollingElement.scrollWidth, innerWidth]")
    assert across == [TELEPHONE, TELEPHONE]


def check_access(browser) -> None:
    """Of a page as it is shown: axe-core finds nothing serious in names, roles, order, contrast and the rest."""
    axe = Path(needs(str(AXE), "npm install --no-package-lock"))
    open_cards(browser)
    browser.execute_script(axe.read_text("utf-8"))
    result = browser.execute_async_script("axe.run().then(arguments[0])")
    assert {rule["id"] for rule in result["passes"]} >= {"color-contrast", "button-name"}
    found = [(rule["id"], rule["nodes"][0]["html"]) for rule in result["violations"] if rule["impact"] in SERIOUS]
    assert found == []
