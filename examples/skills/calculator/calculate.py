"""calculator.calculate: applies one operation to two numbers."""

import re

from semif_agent.decisions import DecisionRequest, Option
from semif_agent.skills import ActionResult, Prediction

OPERATIONS = {
    "add": ("Adding: plus, sum, together.", lambda a, b: a + b),
    "subtract": ("Subtracting: minus, less, difference.", lambda a, b: a - b),
    "multiply": ("Multiplying: times, product.", lambda a, b: a * b),
    "divide": ("Dividing: by, ratio, quotient.", lambda a, b: a / b),
}


def predict(ctx, request):
    decision = DecisionRequest(
        state=request.text,
        question="Which operation is asked for?",
        options=[Option(name, text) for name, (text, _) in OPERATIONS.items()],
    )
    result = ctx.engine.call(decision)
    return Prediction(text=result.selected, decisions=[(decision, result)])


def act(ctx, request, prediction):
    numbers = [float(word) for word in re.findall(r"-?\d+(?:\.\d+)?", f"{request.text} {request.user_input or ''}")]
    if len(numbers) < 2:
        return ActionResult(
            action_log=f"calculator.calculate: {len(numbers)} of 2 numbers are known.",
            new_state=request.text,
            needs_input=f"Which two numbers shall I {prediction.text}?",
        )
    a, b = numbers[:2]
    if prediction.text == "divide" and b == 0:
        return ActionResult(action_log="calculator.calculate: nothing is divided by zero.", new_state=request.text)
    value = OPERATIONS[prediction.text][1](a, b)
    return ActionResult(
        action_log=f"calculator.calculate: {prediction.text} {a:g} and {b:g} is {value:g}.",
        new_state=f"{value:g}",
    )
