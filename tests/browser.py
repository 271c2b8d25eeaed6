"""A browser without a screen, driven through chromedriver's HTTP (the WebDriver protocol)."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
MISSING = "" if CHROMIUM and DRIVER else "chromium and chromedriver are not installed"
_LOCAL = urllib.request.build_opener(urllib.request.ProxyHandler({}))
KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Escape": "\ue00c", "Left": "\ue012", "Up": "\ue013", "Right": "\ue014", "Down": "\ue015", "Home": "\ue011", "End": "\ue010", "Shift": "\ue008", "Space": " "}


class Browser:
    """One window; ``ask`` evaluates a script's ``return``."""

    def __init__(self, address: str, arguments: list[str], prefs: dict[str, Any]):
        self.address = address
        options = {"binary": CHROMIUM, "args": arguments, "prefs": prefs}
        always = {"alwaysMatch": {"goog:chromeOptions": options}}
        found = self._call("POST", "/session", {"capabilities": always})
        self.session = f"/session/{found['sessionId']}"

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"}, method=method)
        with _LOCAL.open(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def open(self, address: str) -> None:
        self._call("POST", f"{self.session}/url", {"url": address})

    def size(self, width: int, height: int) -> None:
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def devtools(self, command: str, **params: Any) -> Any:
        return self._call("POST", f"{self.session}/goog/cdp/execute", {"cmd": command, "params": params})

    def ask(self, script: str, *args: Any) -> Any:
        return self._call("POST", f"{self.session}/execute/sync", {"script": script, "args": list(args)})

    def _element(self, selector: str) -> dict[str, str]:
        found = self._call("POST", f"{self.session}/element", {"using": "css selector", "value": selector})
        assert isinstance(found, dict)
        return found

    def _point(self, selector: str, *pressed: str) -> None:
        move = {"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": self._element(selector)}
        actions = [move, *({"type": kind, "button": 0} for kind in pressed)]
        mouse = {"type": "pointer", "id": "mouse", "actions": actions}
        self._call("POST", f"{self.session}/actions", {"actions": [mouse]})

    def hover(self, selector: str) -> None:
        self._point(selector)

    def click(self, selector: str) -> None:
        self._point(selector, "pointerDown", "pointerUp")

    def press(self, *names: str) -> None:
        actions = [{"type": kind, "value": KEYS.get(n, n)} for n in names for kind in ("keyDown", "keyUp")]
        self._call("POST", f"{self.session}/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._call("DELETE", self.session)


@contextlib.contextmanager
def browser(folder: str, scripts: bool = True, dark: bool = False) -> Iterator[Browser]:
    """A browser whose downloads go to a folder."""
    assert DRIVER is not None
    command = [DRIVER, "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as driver:
        assert driver.stdout is not None
        told = (re.search(r"successfully on port (\d+)", line) for line in driver.stdout)
        port = next(found[1] for found in told if found)
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,900", f"--user-data-dir={folder}/profile"]
        prefs: dict[str, Any] = {"download.default_directory": folder, "download.prompt_for_download": False}
        if not scripts:
            prefs["profile.managed_default_content_settings.javascript"] = 2
        made = Browser(f"http://127.0.0.1:{port}", arguments, prefs)
        try:
            if dark:
                features = [{"name": "prefers-color-scheme", "value": "dark"}]
                made.devtools("Emulation.setEmulatedMedia", features=features)
            made.devtools("Network.enable")
            yield made
        finally:
            made.close()
            driver.terminate()
