"""What a skill's body takes and gives."""

from dataclasses import dataclass, field

from semif_agent.decisions import DecisionRequest, DecisionResult, EngineUnavailable, Option, Request

__all__ = [
    "ActionContext",
    "ActionResult",
    "DecisionRequest",
    "DecisionResult",
    "EngineUnavailable",
    "Option",
    "Prediction",
    "Request",
]


@dataclass
class Prediction:
    text: str
    decisions: list = field(default_factory=list)


@dataclass
class ActionResult:
    action_log: str
    new_state: str
    needs_input: "str | None" = None
    decisions: list = field(default_factory=list)


@dataclass
class ActionContext:
    engine: object
    config: dict
    timers: object = None
    admin: object = None
