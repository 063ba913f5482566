"""The desk in a real browser: what is clicked there happens to the robot."""

import json
import shutil
import socket
import sys
import time
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from spectral_skills.api import bundle as base_bundle
from spectral_skills.control.bundle import Bundle
from spectral_skills.control.rollout import Rollout
from spectral_skills.control.session import replay
from spectral_skills.desk.engine import Engine
from spectral_skills.desk.page import Page, open_server
from spectral_skills.robot import g1

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is missing")
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
    None,
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
FLAGS = (
    *("--no-sandbox", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-quic"),
    # WebGL without a GPU.
    *("--disable-gpu", "--enable-unsafe-swiftshader"),
)
SHOULDER = 7 + g1.joint_index("right_shoulder_pitch")
LISTENER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    cue = {"name": "squat", "knobs": [["s21", 1.5]]}
    answer = {"cues": [cue], "messages": ["<img src=x> " + asked["text"]]}
    print(json.dumps({"id": asked["id"], **answer}), flush=True)
"""
PATIENCE_S = 20.0


def wait(what: str, holds: Callable[[], object]) -> None:
    """Until something holds."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError(f"never: {what}")


class Desk:
    """A page that is open, the robot behind it, and what a person does."""

    def __init__(self, page: Page, browser, out):
        self.page, self.browser, self.out = page, browser, out
        self.engine = page.live.engine
        self.view = self.open()

    def open(self):
        """One more browser that looks at the desk."""
        context = self.browser.new_context(viewport={"width": 900, "height": 640})
        view = context.new_page()
        view.set_default_timeout(1000 * PATIENCE_S)
        view.goto(self.page.address, wait_until="commit")
        view.get_by_text("Right arm", exact=True).wait_for()
        return view

    def fader(self, title: str, view=None):
        """The number beside a slider."""
        label = f"//label[normalize-space()='{title}']"
        path = f"xpath={label}/following::input[not(@type='hidden')][1]"
        return (view or self.view).locator(path).first

    def move(self, title: str, value: float, view=None) -> None:
        box = self.fader(title, view)
        box.fill(str(value), force=True)
        box.press("Enter")

    def click(self, label: str) -> None:
        button = self.view.get_by_role("button", name=label).first
        button.click(force=True)  # else two still pictures are waited for

    def position(self, name: str) -> float:
        return self.engine.mixer.channel(name).position

    def shoulder(self, seconds: float = 1.0) -> float:
        """Mean angle over a while, rad."""
        found, last = [], -1
        while len(found) < seconds * g1.CONTROL_HZ:
            frame = self.engine.frame
            if frame.step != last:
                last = frame.step
                found.append(frame.row[SHOULDER])
            time.sleep(0.005)
        return float(np.mean(found))


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    out = tmp_path_factory.mktemp("desk") / "run"
    engine = Engine(Bundle.open(base_bundle()))
    page = Page(engine, out, listener=(sys.executable, "-c", LISTENER))
    page.start()
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield Desk(page, browser, out)
        browser.close()
    page.stop()


def test_the_page_loads_and_shows_a_walking_robot(desk, tmp_path):
    """A canvas with something on it, faders, a lamp; no script has failed."""
    desk.view.locator("canvas").first.wait_for(state="attached")
    desk.view.get_by_text("on its feet").wait_for()
    wait("a walk", lambda: desk.engine.frame.measures.speed > 0.3)
    file = tmp_path / "page.png"

    def drawn() -> bool:
        desk.view.screenshot(path=file)
        middle = np.asarray(Image.open(file).convert("RGB"))[100:600, 340:540]
        return np.ptp(middle, axis=(0, 1)).min() > 100

    wait("a picture of the robot", drawn)
    # Without a GPU, pictures take longer than all that is tested from here on.
    desk.page.pictures = False


def test_a_fader_raises_the_arm(desk):
    """The right shoulder of the robot itself rises, and comes down again."""
    before = desk.shoulder()
    desk.move("Right arm", 2.4)
    wait("the fader", lambda: desk.position("right_arm") == 2.4)
    time.sleep(1.0)
    assert desk.shoulder() < before - 0.3
    desk.view.get_by_text("at +2.4").wait_for()
    desk.click("mute")
    wait("mute", lambda: desk.engine.mixer.channel("right_arm").mute)
    desk.click("MUTED")
    wait("sound", lambda: not desk.engine.mixer.channel("right_arm").mute)


def test_decks_cross_fade(desk):
    """The other deck is heard."""
    desk.click("→ B jog")
    wait("a jog", lambda: desk.engine.mixer.playing == "jog")
    desk.view.get_by_role("button", name="▶ B jog").wait_for()
    desk.click("→ A walk")
    wait("a walk", lambda: desk.engine.mixer.playing == "walk")


def test_a_push_is_felt_and_survived(desk):
    """The pelvis gets its speed; the lamp stays green."""
    desk.click("pause")
    wait("a pause", lambda: desk.page.live.paused)
    time.sleep(0.1)  # a step may have been under way
    step = desk.engine.frame.step
    robot = desk.engine.robot
    before = robot.qvel[:2].copy()
    desk.click("← left")
    wait("the push", lambda: np.linalg.norm(robot.qvel[:2] - before) > 0.5)
    desk.click("step")
    wait("one step", lambda: desk.engine.frame.step == step + 1)
    desk.view.keyboard.press("p")  # with no box in focus, keys are commands
    wait("time goes on", lambda: desk.engine.frame.step > step + 50)
    assert not desk.engine.frame.fallen


def test_files_are_kept_in_the_run_folder(desk):
    """A preset and a take, whatever they are called; the take runs again exactly."""
    desk.view.get_by_role("tab", name="Files").click(force=True)
    name = desk.view.locator(
        "xpath=//label[normalize-space()='name']/following::input[1]"
    )
    name.first.fill("../../mine", force=True)
    desk.click("save as name")
    wait("a preset", lambda: (desk.out / "mine.json").exists())
    assert json.loads((desk.out / "mine.json").read_text())["a"] == "walk"
    assert not list(desk.out.parent.parent.glob("mine*"))
    desk.click("● Record a take")
    wait("a take", lambda: desk.engine.recorder and desk.engine.recorder.seconds > 0.5)
    desk.click("■ Stop and save the take")
    wait("its file", lambda: (desk.out / "mine.csv").exists())
    take = Rollout.load(desk.out / "mine.npz")
    assert np.array_equal(replay(desk.engine.bundle, take), take.robot[:, 0])


def test_a_reload_shows_the_desk_as_it_is(desk):
    """The state is the robot's, not the browser's."""
    desk.view.reload(wait_until="commit")
    sync_api.expect(desk.fader("Right arm")).to_have_value("2.4")


def test_two_browsers_share_the_desk_and_one_leaves(desk):
    """What one does the other sees; the robot does not mind who leaves."""
    other = desk.open()
    desk.move("Turn", 3.0, other)
    wait("the turn", lambda: desk.position("turn") == 3.0)
    sync_api.expect(desk.fader("Turn")).to_have_value("3")
    other.context.close()  # without a word
    step = desk.engine.frame.step
    wait("time goes on", lambda: desk.engine.frame.step > step + 25)
    desk.move("Turn", -2.0)
    wait("the turn", lambda: desk.position("turn") == -2.0)
    assert not desk.page.live.trouble


def test_words_are_played_and_never_run(desk):
    """A direction that they turn up gets a strip; what they say is text."""
    desk.view.get_by_role("tab", name="Robot").click(force=True)
    box = desk.view.locator("form input").first
    box.fill("sit <b>down</b>", force=True)
    box.press("Enter")
    wait("a squat", lambda: desk.engine.mixer.playing == "squat")
    desk.view.get_by_text("<img src=x> sit <b>down</b>").wait_for()
    assert desk.view.locator("img[src=x]").count() == 0
    sync_api.expect(desk.fader("s21")).to_have_value("1.5")


def test_all_faders_are_released(desk):
    """One button, for all browsers."""
    desk.click("Release all faders")
    wait(
        "zero", lambda: not any(desk.position(n) for n in ("right_arm", "turn", "s21"))
    )
    sync_api.expect(desk.fader("Right arm")).to_have_value("0")


def test_the_desk_is_for_this_machine_alone(desk):
    """And no page can have it opened to others."""
    assert desk.page.server.get_host() == "127.0.0.1"
    assert desk.page.server.request_share_url() is None


def test_a_port_that_is_taken_is_told():
    """With a way out; without a wish, the next one is taken."""
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        with pytest.raises(ValueError, match=rf"port {port} .* --port {port + 1}"):
            open_server("127.0.0.1", port)
    with pytest.raises(ValueError, match="no address of this machine"):
        open_server("192.0.2.1", None)
    with pytest.raises(ValueError, match="cannot open no.such.host.invalid"):
        open_server("no.such.host.invalid", None)
    with pytest.raises(ValueError, match="99999"):
        open_server("127.0.0.1", 99999)
