"""clock.now: says what time it is."""

from datetime import datetime, timezone
from zoneinfo import ZoneInfo

from semif_agent.skills import ActionResult

INTEGRATION = {"service": "clock", "transport": "compute", "config_vars": ["timezone"]}
CONTRACT = {"timezone": "The IANA name of the zone whose time is told, such as Europe/Berlin."}


def act(ctx, request):
    zone = ctx.config.get("timezone")
    now = datetime.now(ZoneInfo(zone) if zone else timezone.utc)
    text = now.strftime("%Y-%m-%d %H:%M %Z")
    return ActionResult(action_log=f"clock.now: it is {text}.", new_state=text)
