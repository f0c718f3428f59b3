"""What a planner's answer says: its plan, and what it tells of its own work."""

from __future__ import annotations

from brace.callpath.call import OpenCall
from brace.ledger.records import Status
from brace.plan import Plan, PlanSyntaxError, SkillSet, parse, parse_partial
from brace.planners.base import Answer, Usage


def read_answer(call: OpenCall, answer: Answer, skills: SkillSet | None) -> None:
    """Note all of it in the call."""
    call.status, call.plan, problem = read_plan(answer, skills)
    call.output, call.cold, call.error = answer.text, answer.cold, answer.error or problem
    call.tokens_out = call.tokenizer.count(answer.text) if answer.text else 0
    usage = answer.usage or Usage()
    call.note, call.tokens_cached = usage.note, usage.tokens_cached
    # A planner that says nothing else works on all it is given.
    call.tokens_read = call.tokens_after if usage.tokens_read is None else usage.tokens_read
    if usage.kept_last is not None:
        call.tokens_after = usage.kept_last
    if call.in_model is not None and call.budget is not None:
        if call.tokens_after > call.in_model:
            if usage.kept_last is not None:
                raise AssertionError(
                    f"{call.tokens_after} tokens in the last layer, with a budget of {call.budget}"
                )
            # Cut before it had pruned: nothing was worked on to the end.
            call.tokens_after = 0
        call.floor_overrun = max(0, call.tokens_after - call.budget)
    call.kept_mean = float(call.tokens_after) if usage.kept_mean is None else usage.kept_mean


def read_plan(answer: Answer, skills: SkillSet | None) -> tuple[Status, Plan, str]:
    """The plan in an answer. A cut or truncated one gives its complete leading skills, if it has any."""
    if answer.status in ("shed", "cancelled", "failed"):
        return answer.status, Plan(), answer.error
    if not answer.text.strip():
        return ("cut" if answer.status == "cut" else "empty"), Plan(), ""
    try:
        plan = parse(answer.text, skills)
    except PlanSyntaxError as problem:
        # What is complete in an answer that was cut is as good as ever; in one that rambles it is chance.
        leading, _ = parse_partial(answer.text, skills)
        if leading and (answer.status == "cut" or _ends_within_a_skill(answer.text, problem.offset, skills)):
            return "partial", leading, str(problem)
        return ("cut" if answer.status == "cut" else "unparsable"), Plan(), str(problem)
    return ("partial" if answer.status == "cut" else "ok"), plan, ""


def _ends_within_a_skill(text: str, offset: int, skills: SkillSet | None) -> bool:
    """Whether the text just stops: at its end, or in the name of a skill that was expected there."""
    word = text[offset:].strip().lower()
    if not word:
        return True
    expected = text[:offset].rstrip(" \t").endswith((";", ":", "\n"))
    return expected and skills is not None and any(name.startswith(word) for name in skills.names)
