"""Semantic decisions: a question over a state, with described options."""

import time
import uuid
from dataclasses import dataclass, field


class EngineUnavailable(RuntimeError):
    """The engine cannot decide; nothing is guessed."""


def _new_id():
    return uuid.uuid4().hex[:12]


@dataclass
class Option:
    id: str
    description: str


@dataclass
class DecisionRequest:
    state: str
    question: str
    options: list
    id: str = field(default_factory=_new_id)

    def to_semif_row(self):
        options = [{"id": option.id, "description": option.description} for option in self.options]
        return {"id": self.id, "state": self.state, "question": self.question, "options": options}


@dataclass
class DecisionResult:
    request: DecisionRequest
    option_ids: list
    probabilities: list
    extra: dict = field(default_factory=dict)

    @property
    def probs(self):
        return dict(zip(self.option_ids, self.probabilities))

    def prob(self, option_id):
        return self.probabilities[self.option_ids.index(option_id)]

    @property
    def selected(self):
        return self.option_ids[self.probabilities.index(max(self.probabilities))]


@dataclass
class Request:
    text: str
    id: str = field(default_factory=_new_id)
    source: str = "typed"
    meta: dict = field(default_factory=dict)
    received_at: float = field(default_factory=time.time)
    priority: float = 0.5
    reentries: int = 0
    resume: dict = field(default_factory=dict)
    user_input: "str | None" = None

    def copy_for_requeue(self):
        return Request(
            text=self.text,
            id=self.id,
            source=self.source,
            meta=dict(self.meta),
            received_at=self.received_at,
            reentries=self.reentries + 1,
        )
