"""calendar.create_event: puts one event into a calendar over CalDAV."""

import base64
import re
import urllib.error
import urllib.request
from datetime import datetime, timedelta

from semif_agent.decisions import DecisionRequest, Option
from semif_agent.skills import ActionResult

INTEGRATION = {
    "service": "calendar",
    "transport": "caldav",
    "config_vars": ["caldav_url", "calendars", "caldav_user", "caldav_password"],
}
CONTRACT = {
    "caldav_url": "Where the calendars are, such as http://127.0.0.1:5232/ada/.",
    "calendars": "The calendars to choose from, by name and what each is for.",
    "caldav_user": "Who signs in.",
    "caldav_password": "With which password.",
}


def act(ctx, request):
    when = re.search(r"(\d{4}-\d{2}-\d{2})[ T](\d{2}:\d{2})", f"{request.user_input or ''} {request.text}")
    if when is None:
        return ActionResult(
            action_log="calendar.create_event: the time is not known.",
            new_state=request.text,
            needs_input="When is it? Write it as 2026-12-24 18:00.",
        )
    decision = DecisionRequest(
        state=request.text,
        question="Which calendar does the event belong to?",
        options=[Option(name, text) for name, text in ctx.config["calendars"].items()],
    )
    result = ctx.engine.call(decision)
    start = datetime.fromisoformat(f"{when[1]}T{when[2]}")
    lines = [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//singularity//calendar.create_event//EN",
        "BEGIN:VEVENT",
        f"UID:{request.id}",
        f"DTSTAMP:{datetime.now():%Y%m%dT%H%M%S}",
        f"DTSTART:{start:%Y%m%dT%H%M%S}",
        f"DTEND:{start + timedelta(hours=1):%Y%m%dT%H%M%S}",
        "SUMMARY:" + re.sub(r"([\\;,])", r"\\\1", request.text).replace("\n", " "),
        "END:VEVENT",
        "END:VCALENDAR",
        "",
    ]
    url = f"{ctx.config['caldav_url'].rstrip('/')}/{result.selected}/{request.id}.ics"
    put = urllib.request.Request(url, data="\r\n".join(lines).encode(), method="PUT")
    put.add_header("Content-Type", "text/calendar; charset=utf-8")
    sign = f"{ctx.config['caldav_user']}:{ctx.config['caldav_password']}".encode()
    put.add_header("Authorization", "Basic " + base64.b64encode(sign).decode())
    try:
        with urllib.request.urlopen(put, timeout=20) as answer:
            status = answer.status
    except urllib.error.HTTPError as error:
        log = f"calendar.create_event: the server refused with {error.code} {error.reason}."
        return ActionResult(action_log=log, new_state=request.text, decisions=[(decision, result)])
    return ActionResult(
        action_log=f"calendar.create_event: the server answered {status} for {url}.",
        new_state=f"The event is in `{result.selected}`, {start:%Y-%m-%d %H:%M}.",
        decisions=[(decision, result)],
    )
