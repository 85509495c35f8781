"""Tests CATEGORY.LEAF: run with `singularity skill test`. An engine of its own is allowed here, and nowhere else."""

import importlib.util
import tempfile
from pathlib import Path

from semif_agent.decisions import DecisionResult, Request
from semif_agent.skills import ActionContext

spec = importlib.util.spec_from_file_location("skill", Path(__file__).with_name("skill.py"))
skill = importlib.util.module_from_spec(spec)
spec.loader.exec_module(skill)


class Engine:
    def __init__(self, selected):
        self.selected = selected

    def call(self, request):
        ids = [option.id for option in request.options]
        return DecisionResult(request, ids, [1.0 if one == self.selected else 0.0 for one in ids])


with tempfile.TemporaryDirectory() as folder:
    ctx = ActionContext(engine=Engine("yes"), config={"notes": folder})
    request = Request("water the plants")
    result = skill.act(ctx, request, skill.predict(ctx, request))
    assert result.needs_input is None, result
    assert (Path(folder) / f"{request.id}.txt").read_text() == "water the plants\n"

    ctx = ActionContext(engine=Engine("no"), config={"notes": folder})
    assert skill.act(ctx, request, skill.predict(ctx, request)).needs_input
