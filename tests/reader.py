"""Reads a being's state directory by what the documents say of it, and by nothing of the program: a second opinion on its files.

Usage: reader.py DIR. Exit code 0 and one line of JSON if journal and picture agree; else 1 and the reason.
"""

import decimal
import gzip
import hashlib
import json
import pathlib
import re
import sys
import zlib

decimal.getcontext().prec = 60


def lines(folder):
    """The lines of the journal, its closed parts first; their names tell which records they hold."""
    expected = 1
    for part in sorted(folder.glob("activity-*.jsonl*")):
        first, last = map(int, re.fullmatch(r"activity-(\d{20})-(\d{20})\.jsonl(?:\.gz)?", part.name).groups())
        assert first == expected, f"{part.name} follows record {expected - 1}"
        content = gzip.decompress(part.read_bytes()) if part.suffix == ".gz" else part.read_bytes()
        whole = content.splitlines(keepends=True)
        assert len(whole) == last - first + 1, f"{part.name} has {len(whole)} records"
        yield from whole
        expected = last + 1
    journal = folder / "activity.jsonl"
    yield from journal.read_bytes().splitlines(keepends=True) if journal.exists() else []


def record(line, seq):
    """One record: JSON with a checksum of all that stands before it, and a number that rises by one."""
    sealed, found = re.fullmatch(rb'(.*),"sum":"([0-9a-f]{8})"\}\n', line, re.DOTALL).groups()
    assert int(found, 16) == zlib.crc32(sealed), f"record {seq}: its checksum is wrong"
    read = json.loads(line)
    assert read["seq"] == seq and read.get("with", seq) <= seq, f"record {seq} says that it is {read['seq']}"
    return read


class Life:
    """What the records make of a being: money, conversation and cycle."""

    def __init__(self, birth):
        self.starting = decimal.Decimal(birth["starting"])
        self.spent, self.earned = decimal.Decimal(0), decimal.Decimal(0)
        self.granted, self.credited, self.conversation, self.cycle, self.status = {}, set(), [], 0, "starting"
        self.slot = None

    def apply(self, event):
        kind = event["type"]
        if kind == "cycle_started":
            self.cycle, self.status = event["cycle"], "running"
            assert "slot" not in event or self.slot is None or event["slot"] > self.slot, "a slot is taken once"
            self.slot = event.get("slot", self.slot)
            self.conversation.append(("user", event["framing"]))
            if "stimulus" in event:
                self.conversation.append(("user", "External observation for this cycle: " + event["stimulus"]))
        elif kind == "model_completed":
            self.conversation.append(("assistant", event.get("content")))
        elif kind == "tool_finished":
            self.conversation.append(("tool", event["result"]))
        elif kind == "told":
            self.conversation.append(("user", event["message"]))
        elif kind == "folded":
            del self.conversation[: event["messages"]]
        elif kind == "cost_debited":
            assert decimal.Decimal(event["amount"]) == decimal.Decimal(event["api"]) + decimal.Decimal(event["instance"])
            self.spent += decimal.Decimal(event["amount"])
        elif kind == "funds_granted":
            self.granted.setdefault(event["id"], decimal.Decimal(event["usd"]))
        elif kind == "revenue_credited":
            if event.get("transaction") not in self.credited:
                self.earned += decimal.Decimal(event["amount"])
            self.credited |= {event["transaction"]} if "transaction" in event else set()
        elif kind in ("exhausted", "stopping"):
            self.status = kind
        elif kind == "stopped":
            self.status = event["status"]

    def picture(self):
        remaining = self.starting + sum(self.granted.values()) + self.earned - self.spent
        return {"cycle": self.cycle, "slot": self.slot, "status": self.status, "remaining": remaining, "conversation": self.conversation}


def main(folder):
    life, records, checkpoints, at_checkpoint = None, 0, [], None
    state = (folder / "state.json").read_bytes()
    digest = hashlib.sha256(state).hexdigest()
    for records, line in enumerate(lines(folder), start=1):
        event = record(line, records)
        if records == 1:
            life = Life(event["birth"])
        life.apply(event)
        if event["type"] == "checkpoint":
            checkpoints.append(event["picture"])
            if event["picture"] == digest:
                at_checkpoint = json.dumps(life.picture(), default=str)
    assert at_checkpoint, f"no checkpoint names state.json, whose SHA-256 is {digest}"
    state = json.loads(state)
    assert state["schema_version"] == "being-v1"
    shown = {
        "cycle": state["cycle"],
        "slot": state.get("slot"),
        "status": state["status"],
        "remaining": decimal.Decimal(state["budget"]["remaining"]),
        "conversation": [(message["role"], message.get("content")) for message in state["conversation"]],
    }
    made = json.loads(at_checkpoint)
    for part, value in json.loads(json.dumps(shown, default=str)).items():
        same = decimal.Decimal(made[part]) == decimal.Decimal(value) if part == "remaining" else made[part] == value
        assert same, f"{part}: the records make {made[part]!r}, state.json has {value!r}"
    print(json.dumps({"records": records, "checkpoints": len(checkpoints), "remaining": str(life.picture()["remaining"]), "cycle": life.cycle}))


if __name__ == "__main__":
    try:
        main(pathlib.Path(sys.argv[1]))
    except (AssertionError, AttributeError, KeyError, ValueError, OSError, EOFError, zlib.error) as error:
        sys.exit(f"{type(error).__name__}: {error}")
