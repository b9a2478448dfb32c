"""`examples/digits.html`: digits that are drawn in a browser are classified by the net of `examples/digits.py`. `pytest -m toolchain`, with
Chromium and lld.
"""

from __future__ import annotations

import functools
import html
import json
import re
import shutil
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
CHROMIUM = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
SWITCHES = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--virtual-time-budget=20000", "--dump-dom",
)  # fmt: skip

# Strokes in hundredths of the paper.
DRAWN = """
<script type="module">
  const DIGITS = {
    0: [[[50, 15], [35, 22], [28, 40], [28, 60], [35, 78], [50, 85], [65, 78], [72, 60], [72, 40], [65, 22], [50, 15]]],
    1: [[[38, 30], [52, 15], [52, 85]]],
    4: [[[55, 15], [28, 58], [75, 58]], [[62, 40], [62, 88]]],
    7: [[[28, 18], [72, 18], [45, 85]], [[38, 52], [66, 52]]],
  };
  const paper = document.getElementById("paper");
  const send = (kind, [x, y]) => {
    const { left, top } = paper.getBoundingClientRect();
    const [clientX, clientY] = [left + 1 + x * 3.2, top + 1 + y * 3.2];
    paper.dispatchEvent(new PointerEvent(kind, { clientX, clientY, buttons: 1, bubbles: true }));
  };
  while (document.body.dataset.ready !== "yes") await new Promise((done) => setTimeout(done, 20));
  const found = {};
  for (const [digit, strokes] of Object.entries(DIGITS)) {
    document.getElementById("clear").click();
    for (const stroke of strokes) {
      send("pointerdown", stroke[0]);
      for (const point of stroke.slice(1)) send("pointermove", point);
      send("pointerup", stroke.at(-1));
    }
    found[digit] = document.getElementById("answer").value;
  }
  document.body.append(Object.assign(document.createElement("pre"), { id: "found", textContent: JSON.stringify(found) }));
</script>
"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.toolchain
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_digits_that_are_drawn_are_told(tmp_path: Path) -> None:
    folder = tmp_path / "page"
    folder.mkdir()
    train = [sys.executable, str(EXAMPLES / "digits.py"), "--mode", "to_static", "--steps", "400"]
    subprocess.run([*train, "--output", str(folder / "digits.wasm")], check=True, capture_output=True)
    (folder / "drawn.html").write_text((EXAMPLES / "digits.html").read_text() + DRAWN)
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        page = f"http://127.0.0.1:{server.server_port}/drawn.html"
        command = [str(CHROMIUM), *SWITCHES, f"--user-data-dir={tmp_path / 'profile'}", page]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout)
    assert found is not None, done.stdout[-2000:] + done.stderr[-2000:]
    assert json.loads(html.unescape(found[1])) == {digit: f"This is a {digit}." for digit in "0147"}
