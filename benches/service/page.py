"""How soon the first results are on screen, beside the search request's own time, in a headless Chromium.

    multifold serve &
    multifold bench page http://127.0.0.1:8000

Needs chromium and chromium-driver. The browser's own clock is read: `performance` knows when the request went
out and its answer was there, and a mark is set in the frame after the one that has the first result. Each
query is a new one. `open`: an address with a query is opened, from a cold cache or a warm one; `ask`: a query
is sent off in a page that is open.
"""

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice, product
from typing import TypeAlias
from urllib.parse import urlencode

from benches.reporting import head, row
from multifold.errors import MultifoldError, needs_extra
from multifold.types import SIDES

with needs_extra("dev"):
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run")
LONGEST = 30  # seconds
WATCH = """
const mark = (name) => requestAnimationFrame(() => setTimeout(() => performance.mark(name)));
globalThis.watchResults = () => new MutationObserver((_, watcher) => {
  if (!document.querySelector('#results .card')) return;
  watcher.disconnect();
  mark('results');
}).observe(document, {childList: true, subtree: true});
document.addEventListener('load', ({target}) => { if (target.closest('#results')) mark('picture'); }, true);
watchResults();
"""
ASK = """
document.querySelector('#results').replaceChildren();
performance.clearMarks();
performance.clearResourceTimings();
performance.mark('asked');
watchResults();
document.querySelector('#words').value = arguments[0];
document.querySelector('#search').requestSubmit();
"""
READ = """
const [told] = arguments;
const at = (name) => performance.getEntriesByName(name)[0]?.startTime;
const look = () => {
  const sent = performance.getEntriesByType('resource').find(({name}) => name.endsWith('/v1/search'));
  const all = [at('asked') ?? 0, sent?.startTime, sent?.responseEnd, at('results'), at('picture')];
  if (all.every((one) => one != null)) told(all);
  else setTimeout(look, 200); // the page itself looks, and seldom: a driver that asks slows it
};
look();
"""
COLUMNS = (
    *("milliseconds", "request", "request to results", "ratio"),
    *("request to picture", "start to request", "start to results"),
)
Times: TypeAlias = tuple[float, float, float, float, float]  # start, sent, answered, results, picture


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", help="address of a running service with items in it")
    parser.add_argument("--turns", type=int, default=20, help="queries of each kind")
    parser.add_argument("--target", default="shape", choices=SIDES, help="what is asked for")


def run(args: argparse.Namespace) -> int:
    if not shutil.which("chromedriver"):
        raise MultifoldError("chromedriver is missing: install chromium and chromium-driver.")
    queries = _queries()
    with _browser() as browser:
        browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})

        def opened(query: str, *, cold: bool) -> None:
            if cold:
                browser.execute_cdp_cmd("Network.clearBrowserCache", {})
            browser.get(f"{args.url}/?{urlencode({'q': query, 'target': args.target})}")

        ways: dict[str, Callable[[str], object]] = {
            "open, cold cache": lambda query: opened(query, cold=True),
            "open, warm cache": lambda query: opened(query, cold=False),
            "ask": lambda query: browser.execute_script(ASK, query),
        }
        print(head(*COLUMNS))
        for name, way in ways.items():
            times = [_measure(browser, way, query) for query in islice(queries, args.turns)]
            print(row(name, *_medians(times)))
    return 0


def _queries() -> Iterator[str]:
    """Queries, each once."""
    colours = ("red", "green", "blue", "white", "black", "yellow", "wooden", "tall", "small", "round")
    kinds = ("chair", "table", "lamp", "sofa", "shelf", "cabinet", "stool", "bench", "bed", "desk")
    ends = ("", " with four legs", " on the floor", " with a vase", " with doors")
    return (f"a {colour} {kind}{end}" for end, kind, colour in product(ends, kinds, colours))


def _measure(browser: Chrome, way: Callable[[str], object], query: str) -> Times:
    way(query)
    start, sent, answered, results, picture = browser.execute_async_script(READ)
    return start, sent, answered, results, picture


def _medians(times: list[Times]) -> list[str]:
    """Medians; a ratio is the median of those of single turns."""

    def median(of: Callable[[Times], float]) -> float:
        return statistics.median(map(of, times))

    ratio = median(lambda t: (t[3] - t[1]) / (t[2] - t[1]))
    spans = [median(lambda t, a=a, b=b: t[b] - t[a]) for a, b in ((1, 2), (1, 3), (1, 4), (0, 1), (0, 3))]  # type: ignore[misc]
    request, results, *rest = [f"{span:.1f}" for span in spans]
    return [request, results, f"{ratio:.2f}", *rest]


@contextmanager
def _browser() -> Iterator[Chrome]:
    with tempfile.TemporaryDirectory() as profile:
        options = ChromeOptions()
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        browser = Chrome(options, ChromeService(shutil.which("chromedriver")))
        browser.set_script_timeout(LONGEST)
        try:
            yield browser
        finally:
            browser.quit()
