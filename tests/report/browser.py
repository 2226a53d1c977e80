"""A page in a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.wait import WebDriverWait

ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)

PAYLOADS = (
    "<script>window.pwned = 1</script>",
    '"><img src=x onerror="window.pwned = 1">',
    "</script><script>window.pwned = 1</script>",
    "--><svg onload='window.pwned = 1'>",
    "{{ 7 * 7 }}{% raw %}<!--<script>",
)
"""What a guest, or whoever writes a study, may try to have run."""


class Page:
    """A report in a browser."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(
        self, path: Path, width: int = 1200, dark: bool = False, unfolded: bool = True
    ) -> None:
        """Opens it in a window as high as the page, all of its parts but tables of data unfolded."""
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
        self._size(width, 900)
        self.theme(dark)
        self.messages()
        self.requests()
        self.driver.get(path.as_uri())
        if unfolded:
            self.run(
                "document.querySelectorAll('details:not(.data)').forEach((d) => (d.open = true))"
            )
        self._size(width, min(self.run("return document.documentElement.scrollHeight"), 16_000))

    def _size(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def theme(self, dark: bool) -> None:
        value = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [value]})

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def drawn_now(self) -> int:
        return int(self.run("return document.querySelectorAll('[data-drawn]').length"))

    def drawn(self) -> int:
        """Waits until every chart is drawn; says how many there are."""
        count = "return document.querySelectorAll('[data-chart]').length"
        left = (
            "return [...document.querySelectorAll('[data-chart]:not([data-drawn])')]"
            ".filter((chart) => !chart.closest('details:not([open])')).length"
        )
        WebDriverWait(self.driver, 60).until(lambda _: self.run(left) == 0)
        return int(self.run(count))

    def messages(self) -> list[str]:
        return [str(entry["message"]) for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]

    def requests(self) -> list[str]:
        """Addresses that were asked for since the last call."""
        found = []
        for entry in self.driver.get_log("performance"):  # type: ignore[no-untyped-call]
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return found


@contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """With nothing of its own left from before."""
    options = Options()
    options.binary_location = "/usr/bin/chromium"
    for argument in (*ARGUMENTS, f"--user-data-dir={folder}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    try:
        driver.execute_cdp_cmd("Network.enable", {})
        yield Page(driver)
    finally:
        driver.quit()
