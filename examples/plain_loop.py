"""BRACE in a plain `while` loop: a robot on a line, a slow "LLM", and a ball that rolls away once.

Run it: python examples/plain_loop.py
"""

import time

from brace import Agent, ControllerConfig


def slow_llm(prompt: str) -> str:
    """Stands in for your planner: any function from prompt to plan text. It reads the last known place."""
    time.sleep(0.15)
    place = prompt.rpartition("ball at ")[2].split()[0]
    return f"goto({place}); grasp(ball)"


robot, ball, step = 0, 6, 0
agent = Agent(
    slow_llm,
    task="grasp the ball; say goto(place) and grasp(ball)",
    slo_ms=400,
    budget=160,
    controller=ControllerConfig(cooldown=4, commit=2),
    ledger="runs/plain_loop",
)
with agent:
    while step < 200:
        if step == 12:
            ball = 2  # it rolls away while the robot is on its way
        told = agent.step([f"step {step}: robot at {robot}, ball at {ball} now"], failed=step == 12)
        todo = told.plan.of(0)
        if todo and todo[0].skill == "goto":
            target = int(todo[0].args[0])
            robot += (target > robot) - (target < robot)
            if robot == ball == target:
                print(f"step {step}: reached the ball at {ball}")
                break
        step += 1
        time.sleep(0.02)  # the control period
    agent.close(success=robot == ball)
print("now look at it: brace report runs/plain_loop")
