"""CATEGORY.LEAF: say in one sentence what it does."""

from pathlib import Path

from semif_agent.decisions import DecisionRequest, Option
from semif_agent.skills import ActionResult, Prediction


def predict(ctx, request):
    decision = DecisionRequest(
        state=request.text,
        question="Does the request say what is to be done?",
        options=[Option("yes", "It says what is to be done."), Option("no", "Something is missing.")],
    )
    result = ctx.engine.call(decision)
    return Prediction(text=result.selected, decisions=[(decision, result)])


def act(ctx, request, prediction):
    if prediction.text == "no" and request.user_input is None:
        question = "What exactly is to be done?"
        return ActionResult(action_log="CATEGORY.LEAF: something is missing.", new_state=request.text, needs_input=question)
    notes = Path(ctx.config.get("notes", "data/notes"))
    notes.mkdir(parents=True, exist_ok=True)
    target = notes / f"{request.id}.txt"
    target.write_text(f"{request.text}\n{request.user_input or ''}".rstrip() + "\n")
    return ActionResult(action_log=f"CATEGORY.LEAF: wrote {target}.", new_state=f"{target.name} is written.")
