"""The world: what plans do in it, what it says about that, and what goes wrong by itself."""

from __future__ import annotations

import subprocess
import sys

import pytest
from babyai_kit import Play, said

from brace.errors import ConfigError
from brace.loop.core import tell_plan
from brace.plan import Plan, SkillCall, parse
from brace.worlds.babyai import BabyAIWorld
from brace.worlds.babyai.layout import OBJECTS, ROOM_NAMES, ROOM_OF


def quiet(**options: object) -> BabyAIWorld:
    return BabyAIWorld(**{"disturbance": "none", "difficulty": "easy", **options})  # type: ignore[arg-type]


def room_of(world: BabyAIWorld, name: str) -> str:
    return f"room {ROOM_OF[world._building.objects()[name]]}"


@pytest.mark.parametrize("agents", [1, 2, 4, 8])
@pytest.mark.parametrize("disturbance", ["none", "normal"])
def test_truth_and_reader_do_all_jobs(agents: int, disturbance: str) -> None:
    world = BabyAIWorld(agents=agents, disturbance=disturbance)  # type: ignore[arg-type]
    seeds = range(20, 23)
    truth = [Play(world, seed, lambda _: world.truth_plan()).run() for seed in seeds]
    reader = [Play(world, seed, world.read).run() for seed in seeds]
    assert sum(truth) == len(seeds)
    assert sum(reader) >= len(seeds) - 1


def test_a_plan_learnt_by_heart_or_never_renewed_does_not_win() -> None:
    world = BabyAIWorld()
    world.reset(10**6)
    memory = world.truth_plan()
    for seed in (1, 2):
        assert not Play(world, seed, lambda _: memory).run()
        first: list[Plan] = []
        play = Play(world, seed, world.read)
        play.planner = lambda text, first=first: (
            first[0] if first else first.append(world.read(text)) or first[0]
        )
        assert not play.run()
        world.reset(seed)
        assert world.apply(world.default_plan()) is None
        for _ in range(150):
            world.step(hold=False)
        assert not world.success()


def test_a_job_is_told_as_it_happens() -> None:
    world = quiet(agents=1)
    play = Play(world, 3, lambda _: world.truth_plan())
    assert play.run()
    play.news = world.observe()
    play.buffer.extend(play.news)
    job = world._scene.jobs[0][0]
    lines = [line.text.split("] ", 1)[1].strip() for line in play.buffer.lines()]
    picked = next(n for n, text in enumerate(lines) if text.startswith(f"picked up {job.thing} in room"))
    put = next(n for n, text in enumerate(lines) if text.startswith(f"put down {job.thing} in room"))
    assert picked < put < lines.index(f"job 1 done: {job.thing} next to {job.beside}")
    assert lines[0] == f"agent 0: put the {job.thing} next to the {job.beside}"
    figures = world.figures()
    assert figures["jobs_done"] == 1.0
    assert 0.3 < figures["spl"] <= 1.0


def test_going_to_the_wrong_room_fails_with_the_reason_and_idling_is_noticed() -> None:
    world = quiet(agents=1)
    world.reset(5)
    thing = world._scene.jobs[0][0].thing
    wrong = next(room for room in ROOM_NAMES if room != room_of(world, thing))
    assert world.apply(parse(f"pickup({thing}, {wrong}); drop()")) is None
    for _ in range(120):
        world.step(hold=False)
        if world.events().failed:
            break
    assert f"no {thing} in {wrong}" in said(world.observe(), "failure")
    assert world.rest().is_empty, "what was to follow is dropped too"
    world.step(hold=False)
    assert not world.events().failed
    assert not world.events().deadlock
    for _ in range(10):
        world.step(hold=False)
    assert world.events().deadlock
    assert world.apply(world.truth_plan()) is None
    world.step(hold=False)
    assert not world.events().deadlock


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ("putnext({beside}, {there})", "cannot put down next to {beside}: holds nothing"),
        ("unlock({a}, {b})", "cannot unlock {door}: holds nothing"),
    ],
)
def test_what_cannot_be_done_says_why(plan: str, why: str) -> None:
    world = quiet(difficulty="hard", agents=1)
    world.reset(7)
    job = world._scene.jobs[0][0]
    door = world._floor.doors[min(world._scene.locked)]
    words = {
        "beside": job.beside, "there": room_of(world, job.beside), "door": str(door),
        "a": f"room {door.rooms[0]}", "b": f"room {door.rooms[1]}",
    }  # fmt: skip
    assert world.apply(parse(plan.format(**words))) is None
    world.observe()
    world.step(hold=False)
    assert world.events().failed
    assert said(world.observe(), "failure") == [why.format(**words)]


def test_a_locked_room_is_told_and_its_key_opens_it() -> None:
    world = quiet(difficulty="hard", agents=1)
    world.reset(7)
    door = world._floor.doors[min(world._scene.locked)]
    inside = next(
        room for room in door.rooms if room not in world._floor.reach((world._robots[0].room,), {door.cell})
    )
    blocked = Plan(((0, (SkillCall("pickup", (OBJECTS[0], f"room {inside}")),)),))
    play = Play(world, 7, lambda _: blocked)
    why = f"no way to room {inside}: {door} is locked"
    while why not in said(play.news, "failure") and play.steps < 200:
        play.step()
    assert why in said(play.news, "failure")
    a, b = door.rooms
    world.apply(parse(f"pickup({door.key}, {room_of(world, door.key)}); unlock(room {a}, room {b}); drop()"))
    for _ in range(150):
        world.step(hold=False)
        if world.rest().is_empty:
            break
    assert not world._building.door(door.cell).is_locked
    assert f"unlocked {door}" in said(world.observe(), "action")


def test_a_refused_plan_is_reported_and_changes_nothing() -> None:
    world = quiet()
    world.reset(1)
    refusal, told = tell_plan(world, world.truth_plan(), 0)
    assert refusal is None
    before = world.rest()
    assert said(told, "plan") == [str(before)]
    reason, told = tell_plan(world, parse("unlock(room 1, room 9)"), 0)
    assert reason is not None
    assert "no door between room 1 and room 9" in reason
    assert world.rest() == before
    assert said(told, "failure") == [f"plan refused: {reason}"]
    assert tell_plan(world, before, 0) == (None, []), "a plan that only goes on is not told again"


def test_a_new_plan_with_the_same_next_skill_goes_on_with_it() -> None:
    one, two = quiet(agents=1), quiet(agents=1)
    for world in (one, two):
        world.reset(9)
        world.apply(world.truth_plan())
    for _ in range(30):
        one.step(hold=False)
        two.step(hold=False)
        two.apply(two.rest())
    assert [robot.cell for robot in one._robots] == [robot.cell for robot in two._robots]


def test_while_robots_hold_people_go_on() -> None:
    world = BabyAIWorld(agents=2)
    world.reset(4)
    cells = [(robot.cell, robot.heading) for robot in world._robots]
    lying = world._building.objects()
    for _ in range(80):
        world.step(hold=True)
    assert [(robot.cell, robot.heading) for robot in world._robots] == cells
    moved = {name for name, cell in world._building.objects().items() if lying[name] != cell}
    assert moved
    assert moved <= set(world._scene.things)


def test_what_goes_wrong_does_not_depend_on_the_plan() -> None:
    world = BabyAIWorld(disturbance="strong")

    def notices(plan: bool) -> list[tuple[int, str]]:
        world.reset(8)
        found = []
        for _ in range(120):
            if plan and world.rest().is_empty:
                world.apply(world.truth_plan())
            world.step(hold=not plan)
            found += [(news.step, news.text) for news in world.observe() if "camera" in news.text]
        return found

    assert notices(plan=True) == notices(plan=False) != []


def test_only_faulty_cameras_report_what_is_not_there() -> None:
    world = BabyAIWorld(disturbance="strong", difficulty="easy")
    wrong: set[tuple[int, bool]] = set()
    for seed in range(1, 5):
        play = Play(world, seed, world.read)
        while not world.finished() and play.steps < world.max_steps:
            play.step()
            lying = {name: f"room {ROOM_OF[cell]}" for name, cell in world._building.objects().items()}
            for news in world._news:
                if news.kind == "message" and news.text.startswith("room") and news.agent is not None:
                    room, names = news.text.split(": ")
                    false = any(lying.get(name) != room for name in names.split(", ") if name != "nothing")
                    faulty = world._trouble.is_faulty(news.agent, news.step)
                    wrong |= {(news.agent, faulty)} if false else set()
    assert wrong, "no camera failed in any of these episodes"
    assert all(faulty for _, faulty in wrong)
    assert {agent for agent, _ in wrong} <= {2, 3}, "carriers see well"


def test_news_that_contradict_the_plan_are_a_divergence() -> None:
    world = quiet(agents=4)
    world.reset(2)
    thing = world._scene.jobs[0][0].thing
    wrong = next(room for room in ROOM_NAMES if room != room_of(world, thing))
    world.apply(parse(f"0: wait()\n1: pickup({thing}, {wrong})"))
    home = room_of(world, thing)
    for _ in range(100):
        world.observe()
        world.step(hold=False)
        reports = [text for text in said(world._news, "message") if text.startswith(f"{home}: ")]
        if any(thing in text for text in reports):
            assert world.events().divergence == 1.0
            return
        if world.rest().is_empty:
            world.apply(parse(f"0: wait()\n1: pickup({thing}, {wrong})"))
    raise AssertionError("nobody came by the room")


def test_robots_never_share_a_cell_and_no_door_is_ever_obstructed() -> None:
    world = BabyAIWorld(agents=8, disturbance="strong")
    play = Play(world, 6, lambda _: world.truth_plan())
    while not world.finished() and play.steps < world.max_steps:
        play.step()
        cells = [robot.cell for robot in world._robots]
        assert len(set(cells)) == len(cells)
        lying = set(world._building.objects().values())
        assert not lying & set(cells)
        assert not lying & world._floor.fronts


def test_a_view_that_is_remembered_is_the_one_minigrid_gives() -> None:
    world = BabyAIWorld()
    play = Play(world, 11, world.read)
    for _ in range(60):
        play.step()
        for robot in world._robots:
            assert world._building.view(robot) == world._building._look(robot)


def test_context_grows_with_the_team() -> None:
    def tokens(agents: int) -> int:
        play = Play(
            quiet(agents=agents, difficulty="normal"), 12, lambda _: Plan(((0, (SkillCall("wait"),)),))
        )
        for _ in range(100):
            play.step()
        return play.buffer.tokens

    assert 300 < tokens(1) < tokens(4) < tokens(8) < 8000


def test_a_frame_shows_the_robots() -> None:
    world = quiet(agents=8)
    world.reset(1)
    before = world.frame()
    assert before is not None
    assert before.shape == (480, 480, 3)
    for _ in range(3):
        world.step(hold=False)
    after = world.frame()
    assert after is not None
    assert (before != after).any()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"agents": 0}, "agents = 0; choose 1 to 8"),
        ({"agents": 9}, "choose 1 to 8"),
        ({"difficulty": "brutal"}, "known: easy, normal, hard"),
        ({"disturbance": "mild"}, "known: none, normal, strong"),
    ],
)
def test_options_are_checked(options: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        BabyAIWorld(**options)  # type: ignore[arg-type]


def test_without_minigrid_the_world_is_known_and_says_what_to_install() -> None:
    script = (
        "import sys; sys.modules['minigrid'] = None\n"
        "from brace.errors import MissingExtraError\n"
        "from brace.worlds.babyai import BabyAIWorld\n"
        "try:\n    BabyAIWorld()\nexcept MissingExtraError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "brace-replan[babyai]" in done.stdout
