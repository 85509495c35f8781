"""health.check: asks an HTTP server whether it is well."""

import urllib.error
import urllib.request

from semif_agent.skills import ActionResult

INTEGRATION = {"service": "health", "transport": "http", "config_vars": ["url"]}
CONTRACT = {"url": "The address to ask, such as http://127.0.0.1:8080/health."}


def act(ctx, request):
    url = ctx.config["url"]
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            status = answer.status
    except urllib.error.HTTPError as error:
        status = error.code
    well = "is well" if 200 <= status < 300 else "is not well"
    return ActionResult(action_log=f"health.check: {url} {well}, it answered {status}.", new_state=f"{status}")
