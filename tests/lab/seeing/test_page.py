"""The report: read back as a browser would, with everything that a policy can write kept harmless."""

from __future__ import annotations

import json
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from motet.cli import app
from motet.errors import BadConfig
from motet.lab.experiments.seeing.curves import spread
from motet.lab.experiments.seeing.folder import read_sweep
from motet.lab.experiments.seeing.html import join, tag
from motet.lab.experiments.seeing.page import REPORT, write_page
from motet.lab.experiments.seeing.scale import Scale, bounds, round_step

EVIL = "</div><script>alert('x')</script>\" onmouseover=\"alert(1)\x1b[2J\u202e\ud800"
VOID = {"meta", "br"}


class Page(HTMLParser):
    """What stands in a page, and whether every element that begins also ends."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)

    def of_class(self, name: str) -> int:
        return sum(name in (attributes.get("class") or "").split() for _, attributes in self.elements)


def read(folder: Path) -> Page:
    return Page(write_page(folder).read_text(encoding="utf-8"))


def test_a_real_sweep(folder: Path) -> None:
    assert (folder / REPORT).exists()  # `motet run` has made it
    page = read(folder)
    names = {tag for tag, _ in page.elements}
    assert not names & {"script", "link", "iframe", "img"}
    assert not any(key in ("src", "href") for _, attributes in page.elements for key in attributes)
    assert page.of_class("panel") >= 2  # a family a rate
    assert page.of_class("band") >= 2  # over two seeds
    assert page.of_class("episode") == 3 * 4 * 2  # steps, experiments, best and worst
    assert page.of_class("same") == 4  # the matrix's diagonal
    told = " ".join(page.text)
    for piece in ("Against each other", "learning_rate=0.001 seed=0", "publishing", "Result:", "better on"):
        assert piece in told
    differences = told[told.index("What differs") : told.index("The same in all")]
    assert "learning_rate" in differences and "seed" in differences and "rank" not in differences


def test_examples_of_a_file_have_losses_and_no_episodes(talks: Path) -> None:
    page = read(talks)
    told = " ".join(page.text)
    assert "in nats" in told and "Loss" in told and "Settings" in told and "data.path" in told
    assert not any(word in told for word in ("Episodes", "Against each other", "environment.name"))
    (one,) = read_sweep(talks).experiments
    start, end = (measured.accuracy.mean for measured in one.measured)
    assert start < end < 0 and page.of_class("dot") >= len(one.steps)


def test_what_a_policy_writes_stays_text(folder: Path, tmp_path: Path) -> None:
    evil = tmp_path / "evil"
    shutil.copytree(folder, evil)
    one = next(evil.glob("*/config.json")).parent
    config = json.loads((one / "config.json").read_text())
    (one / "config.json").write_text(json.dumps({**config, "name": EVIL}))
    rollouts = [json.loads(line) for line in (one / "rollouts.jsonl").read_text().splitlines()]
    for rollout in rollouts:
        rollout["outcome"] = EVIL
        rollout["turns"] = [{**turn, "read": EVIL, "written": EVIL} for turn in rollout["turns"]]
    (one / "rollouts.jsonl").write_text("".join(json.dumps(rollout) + "\n" for rollout in rollouts))
    (one / "error.txt").write_text("Trace\nValueError: <b>bad</b>\n")
    page = read(evil)
    names = {tag for tag, _ in page.elements}
    assert "script" not in names
    assert not any(key.startswith("on") for _, attributes in page.elements for key in attributes)
    told = "".join(page.text)
    assert "<script>alert('x')</script>" in told and "<b>bad</b>" in told
    assert "\x1b" not in told and "␛[2J" in told and "\u202e" not in told


def test_a_sweep_that_has_hardly_begun(folder: Path, tmp_path: Path) -> None:
    young = tmp_path / "young"
    for config in folder.glob("*/config.json"):
        (young / config.parent.name).mkdir(parents=True)
        shutil.copy(config, young / config.parent.name)
    told = " ".join(read(young).text)
    assert "No step was finished." in told and "4 of them not done" in told


def test_a_folder_of_another_version(folder: Path, tmp_path: Path) -> None:
    """Less than we tell today, and more."""
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    for metrics in other.glob("*/metrics.jsonl"):
        rows = [json.loads(line) for line in metrics.read_text().splitlines()]
        for row in rows:
            row["tomorrow"] = 1
            for key in ("entropy", "trained_tokens", "algorithm"):
                row.pop(key, None)
        metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
        (metrics.parent / "held_out.jsonl").unlink()
    for file in (*other.glob("*.json"), *other.glob("*/rollouts.jsonl"), *other.glob("*/state.json")):
        file.unlink()
    told = " ".join(read(other).text)
    assert "Two experiments with held-out problems are needed" in told and "Reward" in told


def test_findings_are_told_once(folder: Path, tmp_path: Path) -> None:
    found = tmp_path / "found"
    shutil.copytree(folder, found)
    metrics = sorted(found.glob("*/metrics.jsonl"))[0]
    finding = {"name": "no-signal", "what": "no group differs", "since": 2, "advice": "easier problems"}
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    for row in rows:
        if row.get("step", 0) >= 2:
            row["findings"] = [finding]
    metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = "".join(read(found).text)
    assert told.count("no group differs") == 1 and "since step 2" in told and "easier problems" in told


def test_spread_over_seeds_by_hand(folder: Path) -> None:
    first, second, *_ = read_sweep(folder).experiments
    point = spread([first, second], lambda step: step.reward)[0]
    rewards = [first.steps[0].reward, second.steps[0].reward]
    assert (point.step, point.low, point.high, point.seeds) == (1, min(rewards), max(rewards), 2)
    assert point.mean == pytest.approx(sum(rewards) / 2)
    assert [one.seeds for one in spread([first], lambda step: None)] == []


def test_axes() -> None:
    assert bounds([0.2, 0.7], shares=True) == (0.0, 1.0) and bounds([0.2, 0.7]) == (0.0, 0.8)
    assert bounds([0.2, 7.0], shares=True) == (0.0, 8.0)
    assert bounds([0.0, 12.0]) == (0.0, 15.0)
    assert bounds([-3.1, -1.2]) == (-3.5, -1.0)
    assert bounds([0.0, 0.0]) == (0.0, 1.0) and bounds([-2.0]) == (-3.0, -1.0)
    assert bounds([2.0]) == (0.0, 2.0) and bounds([]) == (0.0, 1.0) and bounds([float("nan"), 3e-7])[1] < 1e-6
    assert Scale(0, 10, 0, 100).ticks == [0, 2.5, 5, 7.5, 10] and Scale(0, 10, 100, 0)(2) == 80
    assert (round_step(0.3), round_step(0.2), round_step(7)) == (0.5, 0.2, 10)


def test_markup() -> None:
    assert tag("p", "a < b", join("&"), class_="x y", title='"', hidden=False, open=True, r=1.5) == (
        '<p class="x y" title="&quot;" open r="1.5">a &lt; b&amp;</p>'
    )


def test_the_command(folder: Path, tmp_path: Path) -> None:
    (folder / REPORT).unlink()
    assert CliRunner().invoke(app, ["report", str(folder)]).exit_code == 0
    assert (folder / REPORT).stat().st_size > 20_000
    with pytest.raises(BadConfig, match="holds no experiment"):
        write_page(tmp_path)
